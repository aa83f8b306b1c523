#include "blas.h"
#include "tasks.h"

#include <comera/base/error.h>
#include <comera/ops/product.h>

#include <limits>
#include <vector>

namespace comera::ops {
namespace {

// Multiply-adds that are worth a thread's start, and parts a product is cut into at most.
constexpr double kLeastWork = 1 << 18;
constexpr std::int64_t kMostParts = 8;
// Narrower parts of a matrix cost more than a thread gains.
constexpr std::int64_t kNarrowest = 32, kShortestSum = 2048;
constexpr std::int64_t kMostScratch = 1 << 17;  // elements
// Below this a call of the BLAS takes longer than a plain loop.
constexpr std::int64_t kPlainLoop = 64;

// Parts along each dimension. Only one of rows, columns and sums is cut.
struct Cut {
  std::int64_t batches = 1, rows = 1, cols = 1, sums = 1;
  std::int64_t count() const { return batches * rows * cols * sums; }
};

Cut cut_of(const ProductSize& s) {
  Cut cut;
  const double work = static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.k) *
                      static_cast<double>(s.n);
  const std::int64_t parts =
      work >= 2 * kLeastWork
          ? std::min<std::int64_t>(kMostParts, static_cast<std::int64_t>(std::min(work / kLeastWork, 1e9)))
          : 1;
  cut.batches = std::min(s.batch, parts);
  const std::int64_t rest = (parts + cut.batches - 1) / cut.batches;
  if (rest == 1) return cut;
  const std::int64_t along = std::min(rest, std::max(s.m, s.n) / kNarrowest);
  if (along > 1) {
    (s.m >= s.n ? cut.rows : cut.cols) = along;
    return cut;
  }
  const std::int64_t scratch = s.batch * s.m * s.n;
  const std::int64_t sums = std::min({rest, s.k / kShortestSum, 1 + kMostScratch / scratch});
  if (sums > 1) cut.sums = sums;
  return cut;
}

template <class T>
struct View {
  T* data;
  std::int64_t batch, rows, cols;
  View at(std::int64_t i, std::int64_t row, std::int64_t col) const {
    return {data + i * batch + row * rows + col * cols, batch, rows, cols};
  }
};

template <class T>
void plain(std::int64_t m, std::int64_t k, std::int64_t n, View<T> c, View<const T> a, View<const T> b) {
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t col = 0; col < n; ++col) {
      T sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += a.data[row * a.rows + i * a.cols] * b.data[i * b.rows + col * b.cols];
      c.data[row * c.rows + col * c.cols] = sum;
    }
}

// A [rows, cols] operand as the BLAS takes it.
template <class T>
MatrixView<T> operand(View<const T> view, std::int64_t rows, std::int64_t cols) {
  if (cols == 1 || view.cols == 1)
    return {view.data, rows == 1 ? std::max<std::int64_t>(1, cols) : view.rows, false};
  return {view.data, cols == 1 ? std::max<std::int64_t>(1, rows) : view.cols, true};
}

// The BLAS is slow where a row-major result has few columns beside many rows, most of all under a left
// operand that lies by columns. Its transpose is then made first, in blocks of rows.
constexpr std::int64_t kFewColumns = 64, kBlockRows = 512;

bool better_transposed(std::int64_t m, std::int64_t k, std::int64_t n, bool left_by_columns) {
  constexpr std::int64_t kVector = 16, kLongSum = 64;
  if (n < 2 || n > kFewColumns || m < 2 * n) return false;
  if (left_by_columns && k >= kLongSum) return true;
  return n % kVector != 0 && (n < kVector || k >= 2 * kVector);
}

template <class T>
void transposed(std::int64_t m, std::int64_t k, std::int64_t n, View<T> c, View<const T> a, View<const T> b) {
  std::vector<T> scratch(std::min(m, kBlockRows) * n);
  const View<const T> b_turned{b.data, b.batch, b.cols, b.rows};
  for (std::int64_t row = 0; row < m; row += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, m - row);
    const View<const T> block = a.at(0, row, 0), turned{block.data, a.batch, a.cols, a.rows};
    gemm(n, rows, k, T{1}, operand(b_turned, n, k), operand(turned, k, rows), T{0}, scratch.data(), rows);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < n; ++j) c.data[(row + i) * c.rows + j] = scratch[j * rows + i];
  }
}

template <class T>
void one(std::int64_t m, std::int64_t k, std::int64_t n, View<T> c, View<const T> a, View<const T> b) {
  if (m * k * n <= kPlainLoop) return plain(m, k, n, c, a, b);
  // Of a result by columns the transpose is by rows.
  if (n > 1 && c.cols != 1) {
    std::swap(a, b), std::swap(a.rows, a.cols), std::swap(b.rows, b.cols);
    std::swap(m, n), std::swap(c.rows, c.cols);
  }
  if (better_transposed(m, k, n, a.rows == 1 && a.cols != 1)) return transposed(m, k, n, c, a, b);
  gemm(m, n, k, T{1}, operand(a, m, k), operand(b, k, n), T{0}, c.data,
       m == 1 ? std::max<std::int64_t>(1, n) : c.rows);
}

template <class T>
void run(const ProductSize& s, const Matrices& result, const Matrices& left, const Matrices& right) {
  const View<T> c{result.tensor.template mutable_data_ptr<T>(), result.batch, result.rows, result.cols};
  const View<const T> a{left.tensor.template const_data_ptr<T>(), left.batch, left.rows, left.cols};
  const View<const T> b{right.tensor.template const_data_ptr<T>(), right.batch, right.rows, right.cols};
  const Cut cut = cut_of(s);
  const auto block = [&](std::int64_t first, std::int64_t last, std::int64_t row, std::int64_t row_end,
                         std::int64_t col, std::int64_t col_end) {
    for (std::int64_t i = first; i < last; ++i)
      one(row_end - row, s.k, col_end - col, c.at(i, row, col), a.at(i, row, 0), b.at(i, 0, col));
  };
  if (cut.count() == 1) {
    const SerialBlas serial;
    return block(0, s.batch, 0, s.m, 0, s.n);
  }
  const auto share = [](std::int64_t whole, std::int64_t part, std::int64_t parts) {
    return whole * part / parts;
  };
  // Sums of the parts behind the first, [sums - 1, batch, m, n].
  const std::int64_t entries = s.m * s.n;
  std::vector<T> scratch((cut.sums - 1) * s.batch * entries);
  for_each_task(cut.count(), [&](std::int64_t, std::int64_t task) {
    const std::int64_t inner = cut.rows * cut.cols * cut.sums, batch = task / inner, part = task % inner;
    const std::int64_t first = share(s.batch, batch, cut.batches),
                       last = share(s.batch, batch + 1, cut.batches);
    if (cut.sums == 1) {
      const std::int64_t row = cut.rows > 1 ? part : 0, col = cut.cols > 1 ? part : 0;
      block(first, last, share(s.m, row, cut.rows), share(s.m, row + 1, cut.rows), share(s.n, col, cut.cols),
            share(s.n, col + 1, cut.cols));
      return;
    }
    const std::int64_t begin = share(s.k, part, cut.sums), end = share(s.k, part + 1, cut.sums);
    for (std::int64_t i = first; i < last; ++i) {
      const View<T> own{scratch.data() + ((part - 1) * s.batch + i) * entries, 0, s.n, 1};
      one(s.m, end - begin, s.n, part == 0 ? c.at(i, 0, 0) : own, a.at(i, 0, begin), b.at(i, begin, 0));
    }
  });
  for (std::int64_t part = 1; part < cut.sums; ++part)
    for (std::int64_t i = 0; i < s.batch; ++i)
      for (std::int64_t row = 0; row < s.m; ++row)
        for (std::int64_t col = 0; col < s.n; ++col)
          c.at(i, row, col).data[0] += scratch[((part - 1) * s.batch + i) * entries + row * s.n + col];
}

// What the BLAS takes counts in 32 bits.
bool fits(const ProductSize& s, const Matrices& one) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return s.m <= most && s.k <= most && s.n <= most && one.rows <= most && one.cols <= most;
}

torch::Tensor as_matrices(const Matrices& one, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return one.tensor.as_strided({batch, rows, cols}, {one.batch, one.rows, one.cols});
}

}  // namespace

void product(const ProductSize& size, const Matrices& result, const Matrices& left, const Matrices& right) {
  const torch::ScalarType type = result.tensor.scalar_type();
  check(left.tensor.scalar_type() == type && right.tensor.scalar_type() == type,
        "[product] all three need one type, got {}, {} and {}", c10::toString(type),
        c10::toString(left.tensor.scalar_type()), c10::toString(right.tensor.scalar_type()));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const bool plain_memory =
      result.tensor.is_cpu() && fits(size, result) && fits(size, left) && fits(size, right);
  if (plain_memory && type == torch::kFloat32) return run<float>(size, result, left, right);
  if (plain_memory && type == torch::kFloat64) return run<double>(size, result, left, right);
  auto out = as_matrices(result, size.batch, size.m, size.n);
  at::bmm_out(out, as_matrices(left, size.batch, size.m, size.k),
              as_matrices(right, size.batch, size.k, size.n));
}

}  // namespace comera::ops
