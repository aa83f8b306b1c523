// What the three preparations share: keys, descriptions, progress.
#pragma once

#include <comera/base/json.h>
#include <comera/data/prepare.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace comera::data {

/// Absolute path as UTF-8, since JSON holds nothing else; a name that is not UTF-8 is told by its hash.
std::string path_text(const std::filesystem::path& path);

/// What is known of source files without reading them; equal as long as nobody writes to them.
Json source_stamp(const std::filesystem::path& file);
Json source_stamps(const std::vector<std::filesystem::path>& files);
std::int64_t total_bytes(const Json& stamps);

/// Sources for the description, with content hashes, once they were read. Error when somebody wrote to them
/// since the stamps were taken.
Json described_sources(const std::vector<std::filesystem::path>& files, const Json& stamps);

/// Key of prepared data; the caller adds what else it depends on.
Json preparation_key(const std::string& kind, const Json& sources, const Tokenizer& tokenizer,
                     const PrepareOptions& options);

/// Description of prepared data; the caller adds what else it knows.
Json preparation_description(const std::string& kind, const Json& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options, std::int64_t cut);

/// Ids of [CLS] and [SEP]; Error when the vocabulary has none.
SpecialTokens required_special(const Tokenizer& tokenizer);

/// Counts samples and calls PrepareOptions::progress now and then.
class Progress {
 public:
  Progress(const PrepareOptions& options, std::int64_t total_bytes);
  /// One more sample; `bytes` of the sources are done.
  void add(std::int64_t bytes);
  void finish() const;

 private:
  std::function<void(const PrepareProgress&)> report_;
  PrepareProgress progress_;
};

}  // namespace comera::data
