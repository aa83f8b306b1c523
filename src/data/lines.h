// Lines of a byte stream in bounded memory, checked to be UTF-8 without NUL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <string>
#include <string_view>

namespace comera::data {

/// What to do with a line above the limit: refuse it, or give it in pieces that end at a space where there is
/// one.
enum class LongLine { refuse, divide };

class LineReader {
 public:
  /// Skips a byte order mark. Throws Error when the stream is empty. `name` is the file in messages.
  LineReader(std::unique_ptr<std::istream> input, std::string name, std::int64_t longest,
             LongLine long_line = LongLine::refuse);

  /// The next line without its LF (a CR before it stays); false at the end. `line` is valid until the next
  /// call.
  bool next(std::string_view& line);
  /// Number of the line given last, from 1.
  std::int64_t number() const { return number_; }
  /// Whether the piece given last is followed by more of the same line.
  bool continues() const { return continues_; }
  std::int64_t bytes_read() const { return bytes_read_; }
  const std::string& name() const { return name_; }
  std::int64_t longest() const { return longest_; }

 private:
  bool fill();
  std::string_view take(std::size_t count, std::size_t skip);
  std::unique_ptr<std::istream> input_;
  std::string name_;
  std::int64_t longest_;
  LongLine long_line_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what was not given yet, in buffer_
  std::int64_t number_ = 0, bytes_read_ = 0;
  bool continues_ = false;
};

/// Opens a regular file for reading; Error with the path when that fails.
std::unique_ptr<std::istream> open_stream(const std::filesystem::path& path);

/// `line` without a closing CR.
inline std::string_view without_carriage_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace comera::data
