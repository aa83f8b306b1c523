#include "corpus_source.h"
#include "require.h"

#include <comera/base/text.h>
#include <comera/data/python_functions.h>

#include <algorithm>
#include <cctype>
#include <string>

// Functions lie inside the source, and their texts keep to the limit and hold no name of a class.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace comera;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto functions = data::find_python_functions(source);
  if (!functions) return 0;
  const data::NameRemover names({"stdlib.xax", "_torch.nn"});
  std::size_t begin = 0;
  for (const auto& function : *functions) {
    REQUIRE(begin <= function.begin && function.begin < function.end && function.end <= source.size());
    REQUIRE(function.lines >= 1 && function.indent >= 0);
    begin = function.begin;
    const std::string text = data::function_text(source, function, 64);
    REQUIRE(text.size() <= 64);
    REQUIRE(invalid_utf8(source) || !invalid_utf8(text));
    std::string cleaned = names.remove(text);
    REQUIRE(cleaned.size() <= text.size());
    std::erase(cleaned, '_');
    std::transform(cleaned.begin(), cleaned.end(), cleaned.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    for (const char* name : {"stdlib", "xax", "torch"}) REQUIRE(cleaned.find(name) == std::string::npos);
  }
  return 0;
}
