#include "double_train.h"

#include <comera/base/error.h>
#include <comera/weights/materialize.h>
#include <comera/weights/norms.h>

#include <array>

namespace comera::weights {
namespace {

std::vector<torch::Tensor> folded_double(const TensorTrain& weight, const char* where) {
  const DoubleTrain train = in_double(weight, where);
  return fold_scales(train.cores, train.scales);
}

// Digit of the last row in use at every core, 0 where the core has no row digit (TT output side); columns
// alike.
std::vector<std::int64_t> last_digits(std::int64_t used, const std::vector<std::int64_t>& digits,
                                      std::int64_t first, std::int64_t order) {
  std::vector<std::int64_t> result(order, 0);
  std::int64_t rest = used - 1;
  for (std::int64_t i = digits.size(); i-- > 0; rest /= digits[i]) result[first + i] = rest % digits[i];
  return result;
}

}  // namespace

// Sums from the least significant digits on. For rows (and in the same way columns) two sums are carried:
// over all values of the digits seen so far, and over those up to the digits of the last row in use. A digit
// below the last row's own continues the first sum, an equal one the second.
double frobenius_norm(const TensorTrain& weight) {
  const format::Shape& shape = weight.shape();
  if (shape.dead()) return 0;
  const bool ttm = shape.kind == format::Kind::ttm;
  const auto cores = folded_double(weight, "frobenius_norm");
  const auto last_row = last_digits(shape.rows, shape.row_digits, 0, shape.order());
  const auto last_col = last_digits(shape.cols, shape.col_digits, ttm ? 0 : shape.split(), shape.order());

  // gram[x][y] [r, r]: x, y = 0 for all values, 1 for those in use.
  using Grams = std::array<std::array<torch::Tensor, 2>, 2>;
  const torch::Tensor one = torch::ones({1, 1}, torch::kDouble);
  Grams gram = {{{one, one}, {one, one}}};
  for (std::int64_t k = shape.order(); k-- > 0;) {
    // [r, row digit, column digit, r'], with a digit of size 1 on the side that a TT core does not have.
    const std::int64_t row_digit = ttm || k < shape.split() ? shape.row_digits[k] : 1;
    const torch::Tensor core = cores[k].view({cores[k].size(0), row_digit, -1, cores[k].size(2)});
    // Parts of a digit's values, and which sum each continues.
    struct Part {
      std::int64_t first, count;
      int sum;
    };
    const auto parts = [](int in_use, std::int64_t size, std::int64_t last) {
      return in_use ? std::vector<Part>{{0, last, 0}, {last, 1, 1}} : std::vector<Part>{{0, size, 0}};
    };
    Grams next;
    for (int x = 0; x < 2; ++x)
      for (int y = 0; y < 2; ++y) {
        torch::Tensor sum = torch::zeros({core.size(0), core.size(0)}, torch::kDouble);
        for (const Part& row : parts(x, core.size(1), last_row[k]))
          for (const Part& col : parts(y, core.size(2), last_col[k])) {
            const torch::Tensor slice = core.narrow(1, row.first, row.count).narrow(2, col.first, col.count);
            sum += slice.matmul(gram[row.sum][col.sum]).flatten(1).matmul(slice.flatten(1).t());
          }
        next[x][y] = sum;
      }
    gram = next;
  }
  return std::sqrt(gram[1][1].item<double>());
}

double spectral_norm(const TensorTrain& weight) {
  const format::Shape& shape = weight.shape();
  check(shape.kind == format::Kind::tt, "[spectral_norm] only for TT weights, got {}",
        format::to_string(shape));
  if (shape.dead()) return 0;
  const auto [a, b] = factors(shape, folded_double(weight, "spectral_norm"));
  const torch::Tensor r_a = std::get<1>(torch::linalg_qr(a, "r"));
  const torch::Tensor r_b = std::get<1>(torch::linalg_qr(b.t(), "r"));
  return torch::linalg_svdvals(r_a.matmul(r_b.t())).max().item<double>();
}

}  // namespace comera::weights
