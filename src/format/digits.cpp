#include <comera/base/error.h>
#include <comera/format/digits.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace comera::format {
namespace {

// Divisors of size, ascending. Trial division up to the square root: sizes are widths and vocabularies.
std::vector<std::int64_t> divisors(std::int64_t size) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d <= size / d; ++d) {
    if (size % d) continue;
    low.push_back(d);
    if (d != size / d) high.push_back(size / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

double ideal(std::int64_t size, std::int64_t count) {
  return std::pow(static_cast<double>(size), 1.0 / count);
}

// The exact split with the smallest sum, digits non-increasing.
std::vector<std::int64_t> best_split(std::int64_t size, std::int64_t count) {
  const auto all = divisors(size);
  std::vector<std::int64_t> best, digits;
  std::int64_t best_sum = std::numeric_limits<std::int64_t>::max();
  const std::function<void(std::int64_t, std::int64_t, std::int64_t)> visit = [&](std::int64_t rest,
                                                                                  std::int64_t left,
                                                                                  std::int64_t largest) {
    if (left == 1) {
      if (rest > largest) return;
      digits.push_back(rest);
      if (const auto sum = std::accumulate(digits.begin(), digits.end(), std::int64_t{0}); sum < best_sum) {
        best_sum = sum;
        best = digits;
      }
      digits.pop_back();
      return;
    }
    // Non-increasing digits: this one is at least the mean of what is left.
    const double least = ideal(rest, left) * (1 - 1e-9);
    for (const std::int64_t d : all) {
      if (d > largest) break;
      if (d < least || rest % d) continue;
      digits.push_back(d);
      visit(rest / d, left - 1, d);
      digits.pop_back();
    }
  };
  visit(size, count, size);
  return best;
}

}  // namespace

Digits balanced_digits(std::int64_t size, std::int64_t count) {
  check(size >= 1 && count >= 1, "[digits] size and count must be 1 or more, got {} and {}", size, count);
  Digits result{best_split(size, count), ""};
  const std::int64_t largest = result.digits.front();
  if (count > 1 && largest > 4 * ideal(size, count) && largest > 16)
    result.warning = fmt::format(
        "{} splits badly into {} factors ({}): its prime factor forces a digit of {}; a width "
        "with small factors would compress better",
        size, count, fmt::join(result.digits, ","), largest);
  return result;
}

Digits padded_digits(std::int64_t size, std::int64_t count) {
  check(size >= 1 && count >= 1, "[digits] size and count must be 1 or more, got {} and {}", size, count);
  // All digits within one or two of the ideal: choose the least sum, then the least padding, among those that
  // fit.
  const auto base = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(ideal(size, count))) - 1);
  std::vector<std::int64_t> best, digits(count);
  double best_score = std::numeric_limits<double>::infinity();
  const std::function<void(std::int64_t, std::int64_t, double)> visit = [&](std::int64_t place,
                                                                            std::int64_t largest,
                                                                            double so_far) {
    if (place == count) {
      if (so_far < static_cast<double>(size)) return;
      const double padding = so_far / static_cast<double>(size) - 1;
      const double sum = std::accumulate(digits.begin(), digits.end(), 0.0) / (count * ideal(size, count));
      // Padding costs nothing but wasted core entries, so below 1/16 only the sum decides.
      const double score = sum + 4 * std::max(0.0, padding - 1.0 / 16) + 1e-3 * padding;
      if (score < best_score) best_score = score, best = digits;
      return;
    }
    for (std::int64_t d = base; d <= std::min(largest, base + 4); ++d) {
      digits[place] = d;
      visit(place + 1, d, so_far * static_cast<double>(d));
    }
  };
  visit(0, base + 4, 1.0);
  return {best, ""};
}

std::int64_t default_digit_count(std::int64_t size) { return size < 512 ? 2 : size < 16384 ? 3 : 4; }

}  // namespace comera::format
