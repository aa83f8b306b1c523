#include "lines.h"

#include "require.h"

#include <comera/base/error.h>

#include <sstream>

// Lines that were divided give the whole text again, in pieces within the limit.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::int64_t longest = 4 + data[0] % 16;
  const std::string content(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    comera::data::LineReader lines(std::make_unique<std::istringstream>(content), "input", longest,
                                   comera::data::LongLine::divide);
    std::string again = content.starts_with("\xEF\xBB\xBF") ? "\xEF\xBB\xBF" : "";
    for (std::string_view line; lines.next(line);) {
      REQUIRE(static_cast<std::int64_t>(line.size()) <= longest);
      again += line;
      if (!lines.continues()) again += '\n';
    }
    if (!content.ends_with('\n')) again.pop_back();
    REQUIRE(again == content);
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("input:"));
  }
  return 0;
}
