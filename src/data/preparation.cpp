#include "preparation.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>

namespace comera::data {
namespace fs = std::filesystem;
namespace {

// Raise when preparation gives other samples for the same sources and options: older files are then not used.
constexpr int kPreparation = 1;
constexpr std::int64_t kSamplesBetweenReports = 1024;

Json tokenizer_key(const Tokenizer& tokenizer) {
  return {{"kind", tokenizer.kind()}, {"hash", hex(hash_bytes(tokenizer.state()))}};
}

}  // namespace

std::string path_text(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  std::string text = error ? path.string() : canonical.string();
  return invalid_utf8(text) ? "name with hash " + hex(hash_bytes(text)) : text;
}

Json source_stamp(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  check(!error, "{}: cannot read it: {}", file.string(), error.message());
  return {{"bytes", bytes}, {"hash", hex(hash_file(file))}};
}

Json source_stamps(const std::vector<fs::path>& files) {
  Json stamps = Json::array();
  for (const auto& file : files) stamps.push_back(source_stamp(file));
  return stamps;
}

std::int64_t total_bytes(const Json& stamps) {
  std::int64_t bytes = 0;
  for (const auto& stamp : stamps) bytes += stamp["bytes"].get<std::int64_t>();
  return bytes;
}

Json described_sources(const std::vector<fs::path>& files, const Json& stamps) {
  Json sources = Json::array();
  for (std::size_t i = 0; i < files.size(); ++i) {
    check(source_stamp(files[i]) == stamps[i], "{}: changed while it was read; run it again",
          files[i].string());
    sources.push_back(stamps[i]);
  }
  return sources;
}

Json preparation_key(const std::string& kind, const Json& sources, const Tokenizer& tokenizer,
                     const PrepareOptions& options) {
  return {{"preparation", kPreparation},
          {"kind", kind},
          {"sources", sources},
          {"tokenizer", tokenizer_key(tokenizer)},
          {"max_length", options.max_length}};
}

Json preparation_description(const std::string& kind, const Json& sources, const Tokenizer& tokenizer,
                             const PrepareOptions& options, std::int64_t cut) {
  return {{"kind", kind},
          {"sources", sources},
          {"tokenizer", tokenizer_key(tokenizer)},
          {"max_length", options.max_length},
          {"cut", cut}};
}

SpecialTokens required_special(const Tokenizer& tokenizer) {
  const SpecialTokens special = tokenizer.special();
  check(special.cls >= 0 && special.sep >= 0, "[prepare] the {} vocabulary has no [CLS] and [SEP] tokens",
        tokenizer.kind());
  return special;
}

Progress::Progress(const PrepareOptions& options, std::int64_t total_bytes) : report_(options.progress) {
  progress_.total_bytes = total_bytes;
}

void Progress::add(std::int64_t bytes) {
  progress_.bytes = bytes;
  if (++progress_.samples % kSamplesBetweenReports == 0) finish();
}

void Progress::finish() const {
  if (report_) report_(progress_);
}

}  // namespace comera::data
