// A text classification task that every machine with torch has: the Python functions of the installed
// packages, to be told apart by package. Nothing is downloaded. The same files and options give the same
// corpus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace comera::data {

/// A folder of Python packages. Modules of the standard library count as parts of one package, "stdlib".
struct CorpusRoot {
  std::filesystem::path path;
  bool standard_library = false;
};

/// Asks a Python interpreter for its standard library and its package folders. Throws Error when it does not
/// run.
std::vector<CorpusRoot> python_roots(const std::string& python);

struct CorpusOptions {
  std::vector<CorpusRoot> roots;
  std::int64_t classes = 24;           ///< at most; the ones with most functions
  std::int64_t least_functions = 500;  ///< a package with fewer is no class
  std::int64_t split_above = 2'500;  ///< a package with more is divided into its parts (torch.nn, sympy.core)
  std::int64_t train_per_class = 3'000;  ///< at most
  double held_out = 0.2;                 ///< share of a class's functions, by whole files
  double largest_share = 0.08;           ///< of held-out functions that one class may have
  std::int64_t least_lines = 4;          ///< shorter functions are left out
  std::int64_t longest_text = 2'000;     ///< bytes; longer functions are cut
  std::uint64_t seed = 1;
};

/// One function with its giving-away names removed.
struct CorpusFunction {
  std::string text;
  std::int64_t label = 0;
  bool held_out = false;
};

struct CorpusSummary {
  struct Class {
    std::string name;
    std::int64_t train = 0, held_out = 0;  ///< functions
  };
  std::vector<Class> classes;   ///< in label order, sorted by name
  std::int64_t files = 0;       ///< Python files read
  std::int64_t skipped = 0;     ///< files that are unreadable, not UTF-8 or not Python
  std::int64_t functions = 0;   ///< long enough, over all files and packages
  std::int64_t duplicates = 0;  ///< left out because the same text came before
  std::int64_t train() const;
  std::int64_t held_out() const;
  /// Share of the most frequent class among the held-out functions: the accuracy of always naming it.
  double majority_baseline() const;
};

/// Walks the roots in sorted order (tests, caches and nested package folders left out), chooses the classes,
/// splits by file, balances by capping, and gives each function to `use`, in file order. No text is given
/// twice, so none is on both sides. The words of all class names are replaced by "x" in every text, whatever
/// their case: as parts of other words too when they have three letters or more. Throws Error when fewer than
/// two classes are found.
CorpusSummary harvest_corpus(const CorpusOptions& options,
                             const std::function<void(const CorpusFunction&)>& use);

}  // namespace comera::data
