// The Python files below the roots of a corpus, and the functions in them.
#pragma once

#include <comera/data/corpus.h>
#include <comera/data/python_functions.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::data {

struct CorpusFile {
  std::filesystem::path path;
  std::string relative;  ///< below its root, with '/'
  std::string package;   ///< first part of `relative`, or "stdlib"
  std::string part;      ///< what follows the package: a folder or module of it, may be empty
};

/// All Python files in sorted order. Tests, caches and package folders inside the standard library are left
/// out.
std::vector<CorpusFile> corpus_files(const std::vector<CorpusRoot>& roots);

/// The text of a function: indentation of its `def` taken off each line, LF line ends, cut to `longest` bytes
/// (not inside a name).
std::string function_text(std::string_view source, const PythonFunction& function, std::int64_t longest);

/// Replaces by "x" every occurrence of the words that would give a class away, whatever their case.
/// Underscores inside a word may be there or not (higher_order_ops, HigherOrderOps). Words of one or two
/// letters count only where no letter or digit touches them.
class NameRemover {
 public:
  /// The words are the parts of the class names between dots, without underscores around them.
  explicit NameRemover(const std::vector<std::string>& class_names);
  std::string remove(std::string_view text) const;

 private:
  std::size_t match(std::string_view text, std::size_t position) const;
  std::vector<std::string> words_[256];  // lower case, without underscores, by first letter, longest first
  bool word_with_x_ = false;
};

}  // namespace comera::data
