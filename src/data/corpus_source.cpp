#include "corpus_source.h"

#include <comera/base/error.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace comera::data {
namespace fs = std::filesystem;
namespace {

bool left_out_folder(const std::string& name) {
  static const std::set<std::string> names = {"test", "tests", "__pycache__", "site-packages",
                                              "dist-packages"};
  return names.count(name) || name.ends_with("_test") || name.ends_with("_tests");
}

bool is_test_file(const std::string& name) { return name.starts_with("test_") || name.ends_with("_test.py"); }

void walk(const fs::path& folder, const std::string& relative, std::vector<std::string>& found) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(*it);
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    // Links to folders are not followed: they may lead back.
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      if (!left_out_folder(name)) walk(entry.path(), relative + name + "/", found);
    } else if (name.ends_with(".py") && !is_test_file(name) && entry.is_regular_file(error)) {
      found.push_back(relative + name);
    }
  }
}

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// As the scanner counts columns.
constexpr std::int64_t kTabWidth = 8;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::vector<CorpusFile> corpus_files(const std::vector<CorpusRoot>& roots) {
  std::vector<CorpusFile> files;
  for (const auto& root : roots) {
    check(fs::is_directory(root.path), "{}: is not a folder of Python packages", root.path.string());
    std::vector<std::string> found;
    walk(root.path, "", found);
    for (auto& relative : found) {
      const std::string stem = relative.substr(0, relative.size() - 3);
      std::string rest = root.standard_library ? "stdlib/" + stem : stem;
      const auto first = rest.find('/');
      CorpusFile file{
          .path = root.path / relative, .relative = relative, .package = rest.substr(0, first), .part = {}};
      if (first != std::string::npos) {
        rest.erase(0, first + 1);
        file.part = rest.substr(0, rest.find('/'));
      }
      files.push_back(std::move(file));
    }
  }
  return files;
}

std::string function_text(std::string_view source, const PythonFunction& function, std::int64_t longest) {
  const std::string_view body = source.substr(function.begin, function.end - function.begin);
  const auto limit = static_cast<std::size_t>(longest);
  std::string text;
  std::int64_t skipped = function.indent;  // columns of this line's indentation already taken off
  std::size_t i = 0;
  for (; i < body.size() && text.size() < limit; ++i) {
    const char c = body[i];
    if (c == '\r') {
      if (body.substr(i, 2) == "\r\n") continue;
      text += '\n';
      skipped = 0;
    } else if ((c == ' ' || c == '\t') && skipped < function.indent) {
      skipped = c == ' ' ? skipped + 1 : (skipped / kTabWidth + 1) * kTabWidth;
    } else {
      text += c;
      skipped = c == '\n' ? 0 : function.indent;
    }
  }
  if (i < body.size()) {
    const auto inside = [&] {
      const char c = text.back();
      return is_name_character(c) || static_cast<unsigned char>(c) >= 0x80;
    };
    while (!text.empty() && inside()) text.pop_back();
  }
  return text;
}

NameRemover::NameRemover(const std::vector<std::string>& class_names) {
  std::set<std::string> words;
  for (const auto& name : class_names) {
    std::string word;
    for (const char c : name + ".") {
      if (c == '.') {
        if (!word.empty()) words.insert(word);
        word.clear();
      } else if (c != '_') {
        word += lower(c);
      }
    }
  }
  for (const auto& word : words) {
    words_[static_cast<unsigned char>(word.front())].push_back(word);
    word_with_x_ |= word.find('x') != std::string::npos;
  }
  for (auto& list : words_)
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

// Length of the word that begins at `position`, or 0.
std::size_t NameRemover::match(std::string_view text, std::size_t position) const {
  const auto letter_or_digit = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  for (const auto& word : words_[static_cast<unsigned char>(lower(text[position]))]) {
    std::size_t i = position, matched = 0;
    for (; i < text.size() && matched < word.size(); ++i) {
      if (lower(text[i]) == word[matched]) {
        ++matched;
      } else if (text[i] != '_') {
        break;
      }
    }
    if (matched < word.size()) continue;
    if (word.size() <= 2 && (letter_or_digit(i) || (position > 0 && letter_or_digit(position - 1)))) continue;
    return i - position;
  }
  return 0;
}

std::string NameRemover::remove(std::string_view text) const {
  std::string current(text), cleaned;
  while (true) {
    cleaned.clear();
    bool replaced = false;
    for (std::size_t i = 0; i < current.size();) {
      if (const std::size_t length = match(current, i)) {
        cleaned += 'x';
        i += length;
        replaced = true;
      } else {
        cleaned += current[i++];
      }
    }
    // The x may complete another word that holds one.
    if (!replaced || !word_with_x_) return cleaned;
    std::swap(current, cleaned);
  }
}

}  // namespace comera::data
