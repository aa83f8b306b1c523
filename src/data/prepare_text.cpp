#include "cache.h"
#include "lines.h"
#include "preparation.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/prepare.h>

namespace comera::data {
namespace fs = std::filesystem;
namespace {

// Lines are encoded in pieces of at most this many bytes.
constexpr std::int64_t kTextPiece = 1 << 16;

}  // namespace

Dataset prepare_text(const std::vector<fs::path>& files, const Tokenizer& tokenizer,
                     const PrepareOptions& options) {
  check(!files.empty(), "[prepare] name at least one text file");
  check(options.max_length >= 2, "[prepare] max_length is {}; it must be at least 2", options.max_length);
  const SpecialTokens special = required_special(tokenizer);
  const Json stamps = source_stamps(files);

  const auto build = [&](std::vector<DatasetWriter>& writers) {
    Progress progress(options, total_bytes(stamps));
    std::int64_t bytes_before = 0;
    for (const auto& file : files) {
      LineReader lines(open_stream(file), file.string(), kTextPiece, LongLine::divide);
      std::vector<std::int32_t> window{special.cls};
      const auto close = [&] {
        if (window.size() == 1) return;
        writers.front().add({window, static_cast<std::int64_t>(window.size()), -1});
        window.resize(1);
        progress.add(bytes_before + lines.bytes_read());
      };
      const auto add = [&](std::int32_t token) {
        window.push_back(token);
        if (static_cast<std::int64_t>(window.size()) == options.max_length) close();
      };
      bool line_has_tokens = false;
      for (std::string_view line; lines.next(line);) {
        for (const std::int32_t token : tokenizer.encode(without_carriage_return(line))) {
          add(token);
          line_has_tokens = true;
        }
        if (lines.continues()) continue;
        if (line_has_tokens) add(special.sep);
        line_has_tokens = false;
      }
      close();
      bytes_before += lines.bytes_read();
    }
    check(writers.front().size() > 0, "{}: has no text", files.front().string());
    progress.finish();
    return preparation_description("text", described_sources(files, stamps), tokenizer, options, 0);
  };
  return std::move(cached(options, "text", {files.front().stem().string()},
                          preparation_key("text", stamps, tokenizer, options), build)
                       .front());
}

std::uint64_t files_key(const std::vector<fs::path>& files) {
  return hash_bytes(source_stamps(files).dump());
}

}  // namespace comera::data
