#include <comera/base/random.h>
#include <comera/data/python_functions.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

using namespace comera;
using data::find_python_functions;

namespace {

// The functions' first and last lines, as "2-5 3-4", or "not Python".
std::string found(std::string_view source) {
  const auto functions = find_python_functions(source);
  if (!functions) return "not Python";
  std::string text;
  for (const auto& function : *functions) {
    const auto first = 1 + std::count(source.begin(), source.begin() + function.begin, '\n');
    text +=
        (text.empty() ? "" : " ") + std::to_string(first) + "-" + std::to_string(first + function.lines - 1);
  }
  return text;
}

}  // namespace

TEST(PythonFunctions, FunctionsMethodsAndNestedOnes) {
  EXPECT_EQ(found(R"(import os

@decorated(
    1)
def outer(a,
          b):
    """Text."""

    async def inner():
        await b
    # a comment of outer
    return inner

# a comment of the module

class A:
    x = 1

    def method(self): return 1
    async  def other(self):
        if self: return 2
        else:
            return 3
definition = 4
def last(): pass)"),
            "5-12 9-10 19-19 20-23 25-25");
}

TEST(PythonFunctions, TextIsExact) {
  const std::string source = "class A:\n  def f(x):  # why\n    return '#'   # end\n\n\nb = 1\n";
  const auto functions = find_python_functions(source);
  ASSERT_TRUE(functions);
  ASSERT_EQ(functions->size(), 1);
  const auto& f = functions->front();
  EXPECT_EQ(source.substr(f.begin, f.end - f.begin), "def f(x):  # why\n    return '#'");
  EXPECT_EQ(f.indent, 2);
  EXPECT_EQ(f.lines, 2);
}

TEST(PythonFunctions, StringsHideWhatLooksLikeCode) {
  EXPECT_EQ(found("def f():\n    x = '''\ndef g():\n  pass\n'''\n    return x\ny = 1\n"), "1-6");
  EXPECT_EQ(found("def f():\n    x = r'\\'  '\n    y = \"#'\\\"\"\n    return x\n"), "1-4");
  EXPECT_EQ(found("def f():\n    x = 'a\\\ndef g(): b'\n    return x\n"), "1-4");
  EXPECT_EQ(found("def f():\n    x = \"\"\"a\"b\"\"c\\\"\"\"\"\n    return x\n"), "1-3");
  EXPECT_EQ(found("def f():\n    x = f'{a[\"k\"]}' '' \"\"\n    return ''''''\n"), "1-3");
}

TEST(PythonFunctions, BracketsAndBackslashesJoinLines) {
  EXPECT_EQ(found("def f(a=(\n1,\n# )\n2)):\n    return [\nx for x in (\ny)\n]\nz = 1\n"), "1-8");
  EXPECT_EQ(found("def \\\n f \\\n (): \\\n  pass\ndef g():\n  return 1 + \\\n2\n"), "1-4 5-7");
  EXPECT_EQ(found("def f():\n    assert x \\\n        # a comment ends the continued line\n    # more\n"),
            "1-2");
}

TEST(PythonFunctions, IndentationByTabsFormFeedsAndCarriageReturns) {
  EXPECT_EQ(found("class A:\n\tdef f(self):\n\t\treturn 1\n        def g(self):\n                return 2\n"),
            "2-3 4-5");
  EXPECT_EQ(found("def f():\r\n    return 1\r\n\r\nx = 2\r\n"), "1-2");
  EXPECT_EQ(found("\f\ndef f():\n    return 1\n\f\ndef g():\n    return 2\n"), "2-3 5-6");
  EXPECT_EQ(found("\xEF\xBB\xBF"
                  "def f():\n    return 1\n"),
            "1-2");
  EXPECT_EQ(find_python_functions("def f():\r    return 1\rx = 2\r")->front().lines, 2);
}

TEST(PythonFunctions, WordsThatOnlyBeginLikeDef) {
  EXPECT_EQ(found("default = 1\ndefine(2)\nasync_def = 3\nx.def_ = 4\nasyncdef = 5\n"), "");
  EXPECT_EQ(found(""), "");
  EXPECT_EQ(found("\n\n# only comments"), "");
}

TEST(PythonFunctions, WhatCannotBePythonIsRefused) {
  for (const char* text :
       {"def f(:\n    pass\n", "x = (1]\n", "x = )\n", "x = 'open\n", "x = '''open\n", "x = (1,\n",
        "if x:\ny = 1\n", "x = 1\n  y = 2\n", "if x:\n    y\n  z\n", "x = 1 \\ 2\n", "x \\", "def f():\n"})
    EXPECT_EQ(found(text), std::string_view(text) == "def f():\n" ? "1-1" : "not Python") << text;
  EXPECT_EQ(found(std::string_view("x = 1\0\n", 7)), "not Python");
}

// Whatever the bytes are, functions lie inside the source and do not cross.
TEST(PythonFunctions, RandomTextGivesWellFormedFunctions) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  const std::vector<std::string> pieces = {"def f",  "(",     ")",      ":", "\n", "    ",
                                           "  ",     "'",     "\"\"\"", "#", "\\", "\r\n",
                                           "async ", "x = 1", "\t",     "[", "]",  "class A:\n"};
  std::int64_t functions_seen = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string source;
    for (auto n = random.below(30); n > 0; --n) source += pieces[random.below(pieces.size())];
    const auto functions = find_python_functions(source);
    if (!functions) continue;
    std::size_t begin = 0;
    for (const auto& function : *functions) {
      ++functions_seen;
      ASSERT_LE(begin, function.begin);
      ASSERT_LT(function.begin, function.end);
      ASSERT_LE(function.end, source.size());
      ASSERT_GE(function.lines, 1);
      begin = function.begin;
    }
  }
  EXPECT_GT(functions_seen, 100);
}
