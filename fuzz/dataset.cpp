#include "dataset_file.h"
#include "memory_file.h"
#include "require.h"

#include <comera/base/error.h>
#include <comera/data/dataset.h>

#include <cstring>
#include <string>

namespace {

using namespace comera;
namespace layout = data::dataset_file;

// Opens the bytes as a file; whatever opens must be readable to its last token.
void open(std::string_view bytes) {
  const MemoryFile file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  try {
    const data::Dataset dataset(file.path());
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const auto sample = dataset[i];
      REQUIRE(!sample.tokens.empty() &&
              sample.first_segment <= static_cast<std::int64_t>(sample.tokens.size()));
      REQUIRE(sample.label >= -1 && sample.label <= dataset.largest_label());
      for (const auto token : sample.tokens) REQUIRE(token >= 0 && token <= dataset.largest_token());
      tokens += static_cast<std::int64_t>(sample.tokens.size());
    }
    REQUIRE(tokens == dataset.total_tokens());
  } catch (const Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with(file.path().string()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  open(bytes);
  // Once more with checksums that fit, so that what lies behind them is tried too.
  if (size < sizeof(layout::Magic) + sizeof(layout::Footer)) return 0;
  std::memcpy(bytes.data(), layout::kMagic.data(), sizeof(layout::Magic));
  layout::Footer footer;
  char* end = bytes.data() + size - sizeof footer;
  std::memcpy(&footer, end, sizeof footer);
  footer.magic = layout::kMagic;
  footer.version = layout::kVersion;
  footer.content_hash = hash_bytes({bytes.data(), size - sizeof footer});
  footer.checksum = footer.expected_checksum();
  std::memcpy(end, &footer, sizeof footer);
  open(bytes);
  return 0;
}
