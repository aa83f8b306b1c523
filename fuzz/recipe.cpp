#include "require.h"

#include <comera/base/error.h>
#include <comera/train/recipe.h>

#include <string>

// A recipe that is read is written and read again to the same one; the bytes also serve as a --set value.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace comera::train;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string written = to_toml(parse_recipe(text, "recipe"));
    REQUIRE(to_toml(parse_recipe(written, "again")) == written);
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("recipe"));
  }
  try {
    parse_recipe("", "empty", {text});
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("--set") ||
            std::string_view(error.what()).starts_with("empty"));
  }
  return 0;
}
