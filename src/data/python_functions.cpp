#include <comera/data/python_functions.h>

#include <algorithm>
#include <string>

namespace comera::data {
namespace {

constexpr std::int64_t kTabWidth = 8;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\f'; }
bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// A statement line as Python counts them: brackets, triple quotes and backslashes join physical lines.
struct LogicalLine {
  std::size_t begin = 0, end = 0;              // without indentation and closing comment
  std::int64_t first_line = 0, last_line = 0;  // physical lines
  std::int64_t indent = 0;
};

class LineScanner {
 public:
  explicit LineScanner(std::string_view source) : source_(source) {
    if (source_.starts_with("\xEF\xBB\xBF")) position_ = 3;
  }

  // False at the end and at text that is not Python; see broken().
  bool next(LogicalLine& line) {
    if (!skip_to_statement(line.indent)) return false;
    line.begin = line.end = position_;
    line.first_line = line.last_line = line_;
    brackets_.clear();
    while (position_ < source_.size()) {
      const char c = source_[position_];
      if (is_line_end(c)) {
        if (brackets_.empty()) break;
        skip_line_end();
        continue;
      }
      if (c == '#') {
        skip_comment();
        continue;
      }
      if (is_space(c)) {
        ++position_;
        continue;
      }
      if (c == '\\') {
        if (!skip_continuation()) return fail();
        continue;
      }
      if (!skip_token(c)) return fail();
      line.end = position_;
      line.last_line = line_;
    }
    return brackets_.empty() || fail();
  }

  bool broken() const { return broken_; }

 private:
  bool fail() {
    broken_ = true;
    return false;
  }

  void skip_line_end() {
    if (source_.substr(position_, 2) == "\r\n") ++position_;
    ++position_;
    ++line_;
  }

  void skip_comment() {
    while (position_ < source_.size() && !is_line_end(source_[position_])) ++position_;
  }

  // Passes over empty and comment lines; false at the end of the source.
  bool skip_to_statement(std::int64_t& indent) {
    indent = 0;
    for (; position_ < source_.size();) {
      const char c = source_[position_];
      if (is_line_end(c)) {
        skip_line_end();
        indent = 0;
      } else if (c == '#') {
        skip_comment();
      } else if (is_space(c)) {
        indent = c == '\f' ? 0 : c == '\t' ? (indent / kTabWidth + 1) * kTabWidth : indent + 1;
        ++position_;
      } else {
        return true;
      }
    }
    return false;
  }

  // A backslash at the end of a line.
  bool skip_continuation() {
    ++position_;
    if (position_ == source_.size() || !is_line_end(source_[position_])) return false;
    skip_line_end();
    return true;
  }

  // One string, bracket or other character.
  bool skip_token(char c) {
    switch (c) {
      case '"':
      case '\'':
        return skip_string(c);
      case '(':
        brackets_.push_back(')');
        break;
      case '[':
        brackets_.push_back(']');
        break;
      case '{':
        brackets_.push_back('}');
        break;
      case ')':
      case ']':
      case '}':
        if (brackets_.empty() || brackets_.back() != c) return false;
        brackets_.pop_back();
        break;
      case '\0':
        return false;
      default:
        break;
    }
    ++position_;
    return true;
  }

  // A backslash keeps the next character from ending the string, in raw strings too.
  bool skip_string(char quote) {
    const std::string triple(3, quote);
    const bool is_triple = source_.substr(position_, 3) == triple;
    position_ += is_triple ? 3 : 1;
    while (position_ < source_.size()) {
      const char c = source_[position_];
      if (c == '\\') {
        ++position_;
        if (position_ == source_.size()) return false;
        is_line_end(source_[position_]) ? skip_line_end() : void(++position_);
      } else if (is_line_end(c)) {
        if (!is_triple) return false;
        skip_line_end();
      } else if (is_triple ? source_.substr(position_, 3) == triple : c == quote) {
        position_ += is_triple ? 3 : 1;
        return true;
      } else {
        ++position_;
      }
    }
    return false;
  }

  std::string_view source_;
  std::size_t position_ = 0;
  std::int64_t line_ = 1;
  std::string brackets_;  // the closing ones that are awaited
  bool broken_ = false;
};

// Whether `text` begins with `word` followed by a space or a continued line; moves behind them.
bool skip_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word) || text.size() == word.size()) return false;
  const char after = text[word.size()];
  if (!is_space(after) && after != '\\') return false;
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\f\\\r\n"), text.size()));
  return true;
}

bool begins_function(std::string_view statement) {
  skip_word(statement, "async");
  return skip_word(statement, "def");
}

}  // namespace

std::optional<std::vector<PythonFunction>> find_python_functions(std::string_view source) {
  std::vector<PythonFunction> functions;
  struct Open {
    std::size_t function;
    std::int64_t first_line;
  };
  std::vector<Open> open;                // functions that the present line may belong to
  std::vector<std::int64_t> indents{0};  // of the blocks that the present line is in
  LogicalLine line, before;
  LineScanner scanner(source);

  const auto close_to = [&](std::int64_t indent) {
    while (!open.empty() && indent <= functions[open.back().function].indent) {
      PythonFunction& function = functions[open.back().function];
      function.end = before.end;
      function.lines = before.last_line - open.back().first_line + 1;
      open.pop_back();
    }
  };

  bool block_begins = false;
  while (scanner.next(line)) {
    // An indented block stands after a colon, and only there.
    if ((line.indent > indents.back()) != block_begins) return std::nullopt;
    if (block_begins) {
      indents.push_back(line.indent);
    } else {
      while (indents.back() > line.indent) indents.pop_back();
      if (indents.back() != line.indent) return std::nullopt;
    }
    close_to(line.indent);
    const std::string_view statement = source.substr(line.begin, line.end - line.begin);
    if (begins_function(statement)) {
      open.push_back({functions.size(), line.first_line});
      functions.push_back({line.begin, line.end, 0, line.indent});
    }
    block_begins = statement.ends_with(':');
    before = line;
  }
  if (scanner.broken()) return std::nullopt;
  close_to(-1);
  return functions;
}

}  // namespace comera::data
