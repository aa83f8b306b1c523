#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/data/corpus.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

using namespace comera;
using data::CorpusFunction;
using data::CorpusOptions;
using data::CorpusSummary;
namespace fs = std::filesystem;

namespace {

struct Harvest {
  CorpusSummary summary;
  std::vector<CorpusFunction> functions;
};

Harvest harvest(const CorpusOptions& options) {
  Harvest all;
  all.summary = data::harvest_corpus(options, [&](const CorpusFunction& f) { all.functions.push_back(f); });
  return all;
}

std::string function(const std::string& name, const std::string& body) {
  return "def " + name + "(value):\n    first = value\n    " + body + "\n    return first\n\n";
}

// Packages alpha, beta (divided into core and deep_parts) and stdlib modules, some functions in each of many
// files.
class CorpusTest : public testing::Test {
 protected:
  CorpusTest() {
    for (int file = 0; file < 10; ++file) {
      const std::string number = std::to_string(file);
      std::string alpha, core, parts, library;
      for (int i = 0; i < 5; ++i) {
        const std::string id = number + std::to_string(i);
        alpha += function("f" + id, "alpha.Alpha_thing(preALPHApost, al_pha)");
        core += function("g" + id, "from beta.core import encore");
        parts += function("h" + id, "DeepParts, deep_parts, io, radio, IO_x, o.io");
        library += function("k" + id, "pass");
      }
      write_file(folder_ / ("site/alpha/sub/m" + number + ".py"), alpha);
      write_file(folder_ / ("site/beta/core/m" + number + ".py"), core);
      write_file(folder_ / ("site/beta/_deep_parts/m" + number + ".py"), parts);
      write_file(folder_ / ("lib/m" + number + ".py"), library);
    }
    write_file(folder_ / "lib/site-packages/alpha/m.py", function("hidden", "inside stdlib"));
    write_file(folder_ / "site/alpha/tests/m.py", function("hidden", "a test"));
    write_file(folder_ / "site/alpha/test_m.py", function("hidden", "a test"));
    write_file(folder_ / "site/alpha/__pycache__/m.py", function("hidden", "a cache"));
    write_file(folder_ / "site/alpha/bytes.py", "x = '\xFF'\n" + function("hidden", "not UTF-8"));
    write_file(folder_ / "site/alpha/broken.py", "x = (\n" + function("hidden", "not Python"));
    write_file(folder_ / "site/alpha/short.py", "def hidden():\n    x = 1\n    return x\n");
    write_file(folder_ / "site/alpha/zz.py", function("f00", "alpha.Alpha_thing(preALPHApost, al_pha)"));
    write_file(folder_ / "site/rare.py", function("hidden", "too few functions"));
    fs::create_directory_symlink(folder_ / "site", folder_ / "site/alpha/loop");
    options_.roots = {{folder_ / "lib", true}, {folder_ / "site", false}};
    options_.least_functions = 20;
    options_.split_above = 60;
    options_.largest_share = 0.5;
  }
  test::TemporaryFolder folder_;
  CorpusOptions options_;
};

}  // namespace

TEST_F(CorpusTest, ClassesSplitAndCounts) {
  const Harvest all = harvest(options_);
  std::vector<std::string> names;
  for (const auto& one : all.summary.classes) {
    names.push_back(one.name);
    EXPECT_EQ(one.train, 40) << one.name;
    EXPECT_EQ(one.held_out, 10) << one.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"alpha", "beta._deep_parts", "beta.core", "stdlib"}));
  EXPECT_EQ(all.summary.files, 43);
  EXPECT_EQ(all.summary.skipped, 2);
  EXPECT_EQ(all.summary.functions, 202);
  EXPECT_EQ(all.summary.duplicates, 1);
  EXPECT_EQ(all.summary.train(), 160);
  EXPECT_EQ(all.summary.held_out(), 40);
  EXPECT_DOUBLE_EQ(all.summary.majority_baseline(), 0.25);
  EXPECT_EQ(all.functions.size(), 200);
  for (const auto& one : all.functions) EXPECT_EQ(one.text.find("hidden"), std::string::npos);
}

TEST_F(CorpusTest, FilesAreWhollyOnOneSide) {
  // The digit after the function's letter is its file.
  std::map<std::string, std::set<bool>> sides;
  for (const auto& one : harvest(options_).functions) sides[one.text.substr(4, 2)].insert(one.held_out);
  EXPECT_EQ(sides.size(), 40);
  for (const auto& [file, both] : sides) EXPECT_EQ(both.size(), 1) << file;
}

TEST_F(CorpusTest, GivingAwayNamesAreRemoved) {
  std::map<char, std::string> expected = {{'f', "x.x_thing(prexpost, x)"},
                                          {'g', "from x.x import enx"},
                                          {'h', "x, x, io, radio, IO_x, o.io"},
                                          {'k', "pass"}};
  for (const auto& one : harvest(options_).functions)
    EXPECT_NE(one.text.find(expected.at(one.text[4])), std::string::npos) << one.text;
  // With a class called io, only the whole word goes.
  for (int file = 0; file < 10; ++file) {
    std::string text;
    for (int i = 0; i < 5; ++i) text += function(fmt::format("z{}{}", file, i), "import zzz");
    write_file(folder_ / ("site/io/m" + std::to_string(file) + ".py"), text);
  }
  expected['h'] = "x, x, x, radio, x_x, o.x";
  expected['z'] = "import zzz";
  for (const auto& one : harvest(options_).functions)
    EXPECT_NE(one.text.find(expected.at(one.text[4])), std::string::npos) << one.text;
}

TEST_F(CorpusTest, TheSameFilesAndOptionsGiveTheSameCorpus) {
  const auto a = harvest(options_), b = harvest(options_);
  ASSERT_EQ(a.functions.size(), b.functions.size());
  for (std::size_t i = 0; i < a.functions.size(); ++i) {
    EXPECT_EQ(a.functions[i].text, b.functions[i].text);
    EXPECT_EQ(a.functions[i].held_out, b.functions[i].held_out);
  }
  options_.seed = 2;
  const auto c = harvest(options_);
  bool differs = false;
  for (std::size_t i = 0; i < a.functions.size(); ++i)
    differs |= a.functions[i].held_out != c.functions[i].held_out;
  EXPECT_TRUE(differs);
}

TEST_F(CorpusTest, CapsBalanceBothSides) {
  std::string many;
  for (int i = 0; i < 400; ++i) many += function(fmt::format("f{}", 10'000 + i), "many");
  for (int file = 0; file < 4; ++file) {
    write_file(folder_ / ("site/alpha/many" + std::to_string(file) + ".py"),
               function("only" + std::to_string(file), "one") +
                   many.substr(many.size() / 4 * file, many.size() / 4));
  }
  options_.split_above = 10'000;
  options_.largest_share = 0.4;
  options_.train_per_class = 45;
  const Harvest all = harvest(options_);
  for (const auto& one : all.summary.classes) EXPECT_LE(one.train, 45);
  EXPECT_LE(all.summary.majority_baseline(), 0.4);
}

TEST_F(CorpusTest, LongFunctionsAreCutOutsideOfNamesAndDedented) {
  std::string body;
  for (int i = 0; i < 300; ++i) body += "        ca" + std::to_string(1000 + i) + " = '\xC3\xA9\xC3\xA9'\n";
  for (int file = 0; file < 2; ++file)
    for (int k = 0; k < 10; ++k) {
      const std::string id = std::to_string(file) + std::to_string(k);
      write_file(folder_ / ("site/gamma/l" + id + ".py"),
                 "class A:\n    def long" + id + "(self):\n" + body + "\r\n    def short" + id +
                     "(self):\r\n\r\n        a = 1\r\n        return a\r\n");
    }
  options_.longest_text = 1'000;
  int seen = 0;
  for (const auto& one : harvest(options_).functions) {
    EXPECT_LE(one.text.size(), 1'000);
    EXPECT_FALSE(invalid_utf8(one.text));
    if (one.text.starts_with("def long")) {
      ++seen;
      EXPECT_GT(one.text.size(), 980);
      EXPECT_EQ(one.text.find("(self):\n    ca1000 = "), 10) << one.text;
    }
    if (one.text.starts_with("def short")) {
      EXPECT_TRUE(one.text.ends_with("(self):\n\n    a = 1\n    return a")) << one.text;
    }
  }
  EXPECT_EQ(seen, 20);
}

TEST_F(CorpusTest, TooFewPackagesOrBadOptionsAreErrors) {
  CorpusOptions options = options_;
  options.least_functions = 1'000;
  EXPECT_THROW(harvest(options), Error);
  options = options_;
  options.roots = {{folder_ / "none", false}};
  EXPECT_THROW(harvest(options), Error);
  options = options_;
  options.held_out = 1;
  EXPECT_THROW(harvest(options), Error);
  options = options_;
  options.classes = 1;
  EXPECT_THROW(harvest(options), Error);
}

TEST(PythonRoots, ProgramsThatAreNoPythonAreErrors) {
  EXPECT_THROW(data::python_roots("no-such-python"), Error);
  EXPECT_THROW(data::python_roots("false"), Error);
  EXPECT_THROW(data::python_roots("true"), Error);
  EXPECT_THROW(data::python_roots("echo"), Error);
  test::TemporaryFolder folder;
  const fs::path endless = folder / "endless";
  write_file(endless, "#!/bin/sh\nexec yes\n");
  fs::permissions(endless, fs::perms::owner_all);
  EXPECT_THROW(data::python_roots(endless.string()), Error);
}

// What the demo promises, on the Python this was built with.
TEST(InstalledCorpus, FiveThousandHeldOutFunctionsAndABaselineBelowTenPercent) {
  CorpusOptions options;
  options.roots = data::python_roots(COMERA_TEST_PYTHON);
  ASSERT_GE(options.roots.size(), 2);
  EXPECT_TRUE(options.roots[0].standard_library);
  std::set<std::string> words;
  std::int64_t given = 0, leaks = 0;
  const CorpusSummary summary = data::harvest_corpus(options, [&](const CorpusFunction& one) {
    ++given;
    std::string lower = one.text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    leaks += lower.find("torch") != std::string::npos || lower.find("sympy") != std::string::npos;
    EXPECT_LE(one.text.size(), 2'000);
  });
  EXPECT_EQ(given, summary.train() + summary.held_out());
  EXPECT_GE(summary.held_out(), 5'000);
  EXPECT_LT(summary.majority_baseline(), 0.10);
  EXPECT_EQ(leaks, 0);
  for (const auto& one : summary.classes) EXPECT_GE(one.held_out, 50) << one.name;
}
