#include "guarded.h"

#include <comera/kernels/small_product.h>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <limits>

using namespace comera::kernels;

namespace {

template <class T>
void expect_definition(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, bool add) {
  const std::int64_t a_row = transposed ? 1 : k + 3, a_column = transposed ? m + 2 : 1, b_row = n + 1,
                     c_row = n + 2;
  Guarded<T> a(transposed ? k * a_column : m * a_row), b(k * b_row), c(m * c_row, T(7));
  const auto fill = [](T* values, std::int64_t count, double step) {
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(std::sin(step * static_cast<double>(i)));
  };
  fill(a.begin(), transposed ? k * a_column : m * a_row, 0.7);
  fill(b.begin(), k * b_row, 1.3);
  small_product(
      SmallProduct<T>{m, n, k, a.begin(), a_row, a_column, b.begin(), b_row, c.begin(), c_row, add});
  ASSERT_TRUE(a.intact() && b.intact() && c.intact());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < c_row; ++j) {
      double expected = add || j >= n ? 7 : 0;  // what lies between rows stays
      if (j < n)
        for (std::int64_t l = 0; l < k; ++l)
          expected += static_cast<double>(a.begin()[i * a_row + l * a_column]) * b.begin()[l * b_row + j];
      ASSERT_NEAR(c.begin()[i * c_row + j], expected, (k + 8) * 4 * std::numeric_limits<T>::epsilon())
          << m << " x " << k << " x " << n << " at " << i << ", " << j;
    }
}

// Memory whose last entry is the last before a page that nobody may touch.
class AtPageEnd {
 public:
  explicit AtPageEnd(std::int64_t count) : page_(::sysconf(_SC_PAGESIZE)) {
    memory_ = static_cast<char*>(
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(memory_ + page_, page_, PROT_NONE);
    begin_ = reinterpret_cast<float*>(memory_ + page_) - count;
  }
  ~AtPageEnd() { ::munmap(memory_, 2 * page_); }
  float* begin() { return begin_; }

 private:
  std::int64_t page_;
  char* memory_;
  float* begin_;
};

}  // namespace

// What lies behind a row's last column may be another thread's, or no memory at all.
TEST(SmallProduct, TouchesNothingBehindTheLastColumn) {
  for (const std::int64_t n : {1, 2, 3, 5, 7, 9, 13, 19}) {
    AtPageEnd a(2), b(n), c(2 * n);
    for (std::int64_t i = 0; i < 2; ++i) a.begin()[i] = static_cast<float>(i + 1);
    for (std::int64_t j = 0; j < n; ++j) b.begin()[j] = static_cast<float>(j);
    for (const bool add : {false, true})
      small_product(SmallProduct<float>{2, n, 1, a.begin(), 1, 1, b.begin(), n, c.begin(), n, add});
    for (std::int64_t j = 0; j < n; ++j) EXPECT_EQ(c.begin()[n + j], 4.0F * static_cast<float>(j));
  }
}

TEST(SmallProduct, IsTheProductForAllSizesStridesAndTypes) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 18, 23, 25})
    for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64})
      for (const std::int64_t k : {0, 1, 2, 5, 32})
        for (const bool transposed : {false, true})
          for (const bool add : {false, true}) {
            expect_definition<float>(m, n, k, transposed, add);
            expect_definition<double>(m, n, k, transposed, add);
          }
}

// Cutting m or n into parts changes no bit: sums run over k in order.
TEST(SmallProduct, PartsHaveTheBitsOfTheWhole) {
  const std::int64_t m = 29, n = 37, k = 19;
  Guarded<float> a(m * k), b(k * n), whole(m * n), parts(m * n);
  for (std::int64_t i = 0; i < m * k; ++i) a.begin()[i] = std::sin(0.3F * static_cast<float>(i));
  for (std::int64_t i = 0; i < k * n; ++i) b.begin()[i] = std::cos(0.7F * static_cast<float>(i));
  small_product(SmallProduct<float>{m, n, k, a.begin(), k, 1, b.begin(), n, whole.begin(), n, false});
  for (std::int64_t row = 0; row < m; row += 5)
    for (std::int64_t column = 0; column < n; column += 10)
      small_product(SmallProduct<float>{std::min<std::int64_t>(5, m - row),
                                        std::min<std::int64_t>(10, n - column), k, a.begin() + row * k, k, 1,
                                        b.begin() + column, n, parts.begin() + row * n + column, n, false});
  for (std::int64_t i = 0; i < m * n; ++i) ASSERT_EQ(whole.begin()[i], parts.begin()[i]);
}

TEST(SmallProduct, NothingToDoIsFine) {
  Guarded<float> c(4, 3.0F);
  small_product(SmallProduct<float>{0, 4, 2, nullptr, 2, 1, nullptr, 4, c.begin(), 4, false});
  small_product(SmallProduct<float>{4, 0, 2, nullptr, 2, 1, nullptr, 4, c.begin(), 4, false});
  EXPECT_EQ(c.begin()[0], 3.0F);
}
