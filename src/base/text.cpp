#include <comera/base/error.h>
#include <comera/base/text.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

namespace comera {

std::optional<std::size_t> invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || i + extra >= text.size()) return i;
    for (int j = 1; j <= extra; ++j)
      if ((byte(i + j) & 0xC0) != 0x80) return i;
    const unsigned char second = byte(i + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second >= 0xA0;
    const bool beyond = lead == 0xF4 && second >= 0x90;
    if (overlong || surrogate || beyond) return i;
    i += extra + 1;
  }
  return std::nullopt;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 2) + 1;
  for (const auto& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t replaced = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string format_count(double count) {
  if (std::abs(count) < 1e3) return fmt::format("{:.0f}", count);
  if (std::abs(count) < 1e6) return fmt::format("{:.1f}k", count / 1e3);
  if (std::abs(count) < 1e9) return fmt::format("{:.2f}M", count / 1e6);
  return fmt::format("{:.2f}G", count / 1e9);
}

std::string format_bytes(double bytes) {
  if (std::abs(bytes) < 1e3) return fmt::format("{:.0f} B", bytes);
  if (std::abs(bytes) < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (std::abs(bytes) < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::int64_t parse_count(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, text.data() + text.size() - end);
  double scale = unit.empty()                 ? 1
                 : unit == "k" || unit == "K" ? 1e3
                 : unit == "M"                ? 1e6
                 : unit == "G"                ? 1e9
                                              : 0;
  check(error == std::errc{} && scale > 0 && value >= 0 && value * scale < 9e18,
        "'{}' is not a count; write a number with an optional k, M or G, for example 500k", text);
  // 0.3M is 300,000 although 0.3 is no binary number; 1.5 is no count.
  const double count = std::round(value * scale);
  check(std::abs(count - value * scale) < 1e-6 * scale, "'{}' is not a whole number", text);
  return static_cast<std::int64_t>(count);
}

}  // namespace comera
