#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/base/text.h>

#include <algorithm>

namespace comera {
namespace {

std::int64_t line_at(std::string_view text, std::size_t offset) {
  return 1 + std::count(text.begin(), text.begin() + std::min(offset, text.size()), '\n');
}

// The parser recurses, so depth is limited before it runs.
std::size_t too_deep_at(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return i;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return std::string_view::npos;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source) {
  if (const auto bad = invalid_utf8(text))
    fail("{}:{}: invalid UTF-8 at byte {}", source, line_at(text, *bad), *bad);
  // The library takes a zero byte for the end and would not see what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail("{}:{}: not valid JSON: a zero byte at byte {}", source, line_at(text, zero), zero);
  if (const auto deep = too_deep_at(text, 64); deep != std::string_view::npos)
    fail("{}:{}: JSON nested more than 64 levels deep", source, line_at(text, deep));
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail("{}:{}: not valid JSON near byte {}", source, line_at(text, error.byte), error.byte);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not valid JSON: {}", source, error.what());
  }
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

}  // namespace comera
