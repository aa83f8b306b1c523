// Functions of a Python source, found by a line scanner: strings, brackets, comments, continued lines and
// indentation, no grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace comera::data {

/// Bytes [begin, end) of the source, from `def` (or `async def`; decorators are outside) to the end of the
/// last statement, and the lines they span. `indent` is the column of `def`.
struct PythonFunction {
  std::size_t begin = 0, end = 0;
  std::int64_t lines = 0;
  std::int64_t indent = 0;
};

/// All functions, methods and nested functions in the order of their `def`. None when the text cannot be
/// Python as far as strings, brackets and indentation go. Never reads outside `source`, whatever it holds.
std::optional<std::vector<PythonFunction>> find_python_functions(std::string_view source);

}  // namespace comera::data
