// Choice of digits: a size as a product of few balanced factors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::format {

struct Digits {
  std::vector<std::int64_t> digits;  ///< non-increasing
  std::string warning;               ///< empty, or why the split is bad ("509 is prime: ...")
};

/// `count` factors of `size`, product exact, as balanced as possible (smallest sum). A prime factor that
/// forces a bad split is said in `warning`. size >= 1, count >= 1.
Digits balanced_digits(std::int64_t size, std::int64_t count);

/// `count` factors whose product is at least `size`, with little padding (below 1/16 of size where that can
/// be) and the smallest sum. For tables, whose padded rows are never looked up.
Digits padded_digits(std::int64_t size, std::int64_t count);

/// Digits a side when the recipe names none: 2 below 512, 3 below 16,384, else 4.
std::int64_t default_digit_count(std::int64_t size);

}  // namespace comera::format
