#include "vocabulary.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace comera::data {
namespace {

// Words above 100 characters are never looked up, so a longer line is no token.
constexpr std::size_t kLongestToken = 100 * 4 + 2;

bool is_space_or_control(char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; }

void check_token(std::string_view token, const std::string& source, std::int64_t line) {
  check(!token.empty(), "{}:{}: empty line; a vocabulary has one token a line", source, line);
  check(token.size() <= kLongestToken,
        "{}:{}: line of {} bytes, but tokens have at most {}; is this a vocabulary with one token a line?",
        source, line, token.size(), kLongestToken);
  if (const auto bad = invalid_utf8(token))
    fail("{}:{}: byte {} is not valid UTF-8; convert the vocabulary to UTF-8", source, line, *bad + 1);
  const auto space = std::find_if(token.begin(), token.end(), is_space_or_control);
  check(space == token.end(),
        "{}:{}: token with a space or control character at byte {}; is this a vocabulary with "
        "one token a line?",
        source, line, space - token.begin() + 1);
}

}  // namespace

std::vector<std::string> parse_vocabulary(std::string_view text, const std::string& source) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  check(!text.empty(), "{}: empty file; a vocabulary has one token a line", source);
  std::vector<std::string> tokens;
  std::unordered_map<std::string_view, std::int64_t> line_of;  // views into `text`
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view token = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!token.empty() && is_space_or_control(token.back())) token.remove_suffix(1);
    check_token(token, source, line);
    const auto [earlier, is_new] = line_of.emplace(token, line);
    check(is_new, "{}:{}: token '{}' is already in line {}; remove one of them", source, line, token,
          earlier->second);
    tokens.emplace_back(token);
  }
  return tokens;
}

}  // namespace comera::data
