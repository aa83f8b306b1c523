#include "names.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace comera::data {

std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 60;
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    // Not inside a character of several bytes.
    if (text.size() >= kLongest && (byte & 0xC0) != 0x80) return text + "...";
    if (byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += name[i];
    }
  }
  return text;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 20;
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(names.size(), kListed); ++i) first.push_back(shown(names[i]));
  const std::string rest = names.size() > kListed ? fmt::format(" and {} more", names.size() - kListed) : "";
  return fmt::format("{}{}", fmt::join(first, ", "), rest);
}

}  // namespace comera::data
