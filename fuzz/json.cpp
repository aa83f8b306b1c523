#include "require.h"

#include <comera/base/error.h>
#include <comera/base/json.h>

#include <cstdint>

// What was parsed is written and parsed again to the same value.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  try {
    const comera::Json value = comera::parse_json(content, "input");
    REQUIRE(comera::parse_json(value.dump(), "again") == value);
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("input"));
  }
  return 0;
}
