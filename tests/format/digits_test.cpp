#include <comera/base/error.h>
#include <comera/format/digits.h>

#include <gtest/gtest.h>

#include <numeric>

using namespace comera;
using format::balanced_digits, format::padded_digits;
using List = std::vector<std::int64_t>;

namespace {
std::int64_t product(const List& digits) {
  return std::accumulate(digits.begin(), digits.end(), std::int64_t{1}, std::multiplies<>());
}
}  // namespace

TEST(BalancedDigits, KnownWidths) {
  EXPECT_EQ(balanced_digits(768, 3).digits, (List{12, 8, 8}));
  EXPECT_EQ(balanced_digits(3072, 3).digits, (List{16, 16, 12}));
  EXPECT_EQ(balanced_digits(256, 2).digits, (List{16, 16}));
  EXPECT_EQ(balanced_digits(1, 3).digits, (List{1, 1, 1}));
}

// Against enumeration of every ordered split.
TEST(BalancedDigits, SmallestSumAndExactProductForEverySize) {
  for (std::int64_t size = 1; size <= 400; ++size) {
    for (std::int64_t count = 1; count <= 3; ++count) {
      const auto digits = balanced_digits(size, count).digits;
      ASSERT_EQ(product(digits), size);
      ASSERT_EQ(static_cast<std::int64_t>(digits.size()), count);
      std::int64_t best = size + count;
      for (std::int64_t a = 1; a <= size; ++a)
        for (std::int64_t b = 1; a * b <= size; ++b) {
          if (size % (a * b)) continue;
          const std::int64_t c = size / (a * b);
          if (count == 3) best = std::min(best, a + b + c);
          if (count == 2 && c == 1) best = std::min(best, a + b);
          if (count == 1 && b == 1 && c == 1) best = std::min(best, a);
        }
      EXPECT_EQ(std::accumulate(digits.begin(), digits.end(), std::int64_t{0}), best)
          << size << " in " << count;
    }
  }
}

TEST(BalancedDigits, SaysWhenAPrimeForcesABadSplit) {
  EXPECT_TRUE(balanced_digits(768, 3).warning.empty());
  EXPECT_NE(balanced_digits(509, 2).warning.find("509"), std::string::npos);
  EXPECT_FALSE(balanced_digits(2 * 5087, 3).warning.empty());
}

TEST(PaddedDigits, HoldAllRowsWithLittlePadding) {
  for (const std::int64_t size : {1, 2, 3, 7, 100, 509, 8192, 30522, 50257, 1000003, 10800000}) {
    for (std::int64_t count = 1; count <= 5; ++count) {
      const auto digits = padded_digits(size, count).digits;
      ASSERT_EQ(static_cast<std::int64_t>(digits.size()), count);
      EXPECT_GE(product(digits), size);
      if (size > 1000) EXPECT_LE(product(digits), size * 1.15) << size << " in " << count;
    }
  }
}

TEST(Digits, RefuseNonsense) {
  EXPECT_THROW(balanced_digits(0, 2), Error);
  EXPECT_THROW(padded_digits(5, 0), Error);
}
