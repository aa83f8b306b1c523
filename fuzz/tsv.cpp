#include "rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  comera::fuzz::read_rows(content, comera::data::Format::tsv, true, {"label", "text"});
  comera::fuzz::read_rows(content, comera::data::Format::tsv, false, {"2", "1"});
  return 0;
}
