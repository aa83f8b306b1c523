#include "lines.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace comera::data {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Where to divide an over-long line: after the last space, or at least not inside a character.
std::size_t division(std::string_view line) {
  if (const auto space = line.rfind(' '); space != std::string_view::npos) return space + 1;
  std::size_t end = line.size();
  while (end > 1 && (static_cast<unsigned char>(line[end - 1]) & 0xC0) == 0x80) --end;
  return static_cast<unsigned char>(line[end - 1]) >= 0xC0 && end > 1 ? end - 1 : line.size();
}

}  // namespace

LineReader::LineReader(std::unique_ptr<std::istream> input, std::string name, std::int64_t longest,
                       LongLine long_line)
    : input_(std::move(input)), name_(std::move(name)), longest_(longest), long_line_(long_line) {
  while (buffer_.size() < kByteOrderMark.size() && fill()) continue;
  if (buffer_.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
  check(begin_ < buffer_.size(), "{}: is empty", name_);
}

// Appends to the buffer what the stream gives; false at its end.
bool LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t used = buffer_.size();
  buffer_.resize(used + kReadBytes);
  input_->read(buffer_.data() + used, kReadBytes);
  check(!input_->bad(), "{}: cannot read it", name_);
  const auto got = static_cast<std::size_t>(input_->gcount());
  buffer_.resize(used + got);
  bytes_read_ += static_cast<std::int64_t>(got);
  return got > 0;
}

std::string_view LineReader::take(std::size_t count, std::size_t skip) {
  const std::string_view line = std::string_view(buffer_).substr(begin_, count);
  begin_ += count + skip;
  if (const auto zero = line.find('\0'); zero != std::string_view::npos)
    fail("{}:{}: NUL at byte {} of the line; is this a text file?", name_, number_, zero + 1);
  if (const auto bad = invalid_utf8(line))
    fail("{}:{}: invalid UTF-8 at byte {} of the line; convert the file to UTF-8", name_, number_, *bad + 1);
  return line;
}

bool LineReader::next(std::string_view& line) {
  const auto longest = static_cast<std::size_t>(longest_);
  if (!continues_) ++number_;
  continues_ = false;
  std::size_t searched = 0;
  while (true) {
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    const auto end = rest.find('\n', searched);
    const std::size_t length = std::min(end, rest.size());
    if (length > longest) {
      check(long_line_ == LongLine::divide, "{}:{}: longer than {} bytes", name_, number_, longest_);
      continues_ = true;
      line = take(division(rest.substr(0, longest)), 0);
      return true;
    }
    if (end != std::string_view::npos) {
      line = take(end, 1);
      return true;
    }
    searched = rest.size();
    if (!fill()) break;
  }
  if (begin_ == buffer_.size()) return false;
  line = take(buffer_.size() - begin_, 0);
  return true;
}

std::unique_ptr<std::istream> open_stream(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  check(!std::filesystem::is_directory(status), "{}: is a folder, expected a file", path.string());
  errno = 0;
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  check(file->is_open(), "{}: cannot open: {}", path.string(), std::strerror(errno));
  return file;
}

}  // namespace comera::data
