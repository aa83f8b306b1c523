#include <comera/base/error.h>
#include <comera/weights/decompose.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace comera::weights {
namespace {

using torch::Tensor;

// W with one dimension a core, padded with zeros, fp64 on the CPU.
Tensor one_mode_a_core(const Tensor& w, const format::Shape& shape) {
  std::vector<std::int64_t> digits = shape.row_digits;
  digits.insert(digits.end(), shape.col_digits.begin(), shape.col_digits.end());
  std::int64_t padded_rows = 1, padded_cols = 1;
  for (const std::int64_t digit : shape.row_digits) padded_rows *= digit;
  for (const std::int64_t digit : shape.col_digits) padded_cols *= digit;
  const Tensor padded = torch::constant_pad_nd(w.detach().to(torch::kCPU, torch::kDouble),
                                               {0, padded_cols - shape.cols, 0, padded_rows - shape.rows});
  if (shape.kind == format::Kind::tt) return padded.reshape(digits);
  std::vector<std::int64_t> order, modes;
  for (std::int64_t k = 0; k < shape.order(); ++k) {
    order.insert(order.end(), {k, k + shape.order()});
    modes.push_back(shape.mode(k));
  }
  return padded.reshape(digits).permute(order).reshape(modes);
}

}  // namespace

Decomposition decompose(const Tensor& w, const format::Shape& limits, double tolerance) {
  format::validate(limits, "decompose");
  check(w.dim() == 2 && w.size(0) == limits.rows && w.size(1) == limits.cols,
        "[decompose] expected a matrix [{}, {}], got [{}]", limits.rows, limits.cols,
        fmt::join(w.sizes(), ","));
  check(tolerance >= 0, "[decompose] the tolerance must not be negative, got {}", tolerance);
  const torch::NoGradGuard no_grad;
  Decomposition result{limits, {}, 0};
  Tensor rest = one_mode_a_core(w, limits);
  const double norm = rest.norm().item<double>();
  check(std::isfinite(norm), "[decompose] the matrix has values that are not finite");
  if (limits.dead()) {
    for (std::int64_t k = 0; k < limits.order(); ++k)
      result.cores.push_back(torch::zeros(limits.core_shape(k), torch::kDouble));
    result.error_bound = norm;
    return result;
  }
  // Singular values below this are rounding errors, not ranks.
  const double noise = 1e-14 * norm;
  const double allowed = std::max(
      noise, tolerance * norm / std::sqrt(static_cast<double>(std::max<std::int64_t>(limits.bonds(), 1))));
  double discarded_squares = 0;
  Tensor half_before = torch::ones({1}, torch::kDouble);
  for (std::int64_t k = 0; k < limits.bonds(); ++k) {
    const std::int64_t rank_before = half_before.size(0);
    const auto [u, sigma, vh] = torch::linalg_svd(rest.reshape({rank_before * limits.mode(k), -1}), false);
    const double* const value = sigma.data_ptr<double>();
    std::int64_t rank = sigma.size(0);
    double tail = 0;
    while (rank > 1) {
      const double longer = tail + value[rank - 1] * value[rank - 1];
      if (rank <= limits.rank(k) && longer > allowed * allowed) break;
      tail = longer;
      --rank;
    }
    discarded_squares += tail;
    // Half of each singular value goes to either side; those that are rounding errors are not divided by.
    const Tensor half = sigma.narrow(0, 0, rank).clamp_min(norm > 0 ? noise : 1.0).sqrt();
    const Tensor core = u.narrow(1, 0, rank).reshape({rank_before, limits.mode(k), rank});
    result.cores.push_back(core * half / half_before.view({-1, 1, 1}));
    result.shape.ranks[k + 1] = rank;
    rest = sigma.narrow(0, 0, rank).unsqueeze(1) * vh.narrow(0, 0, rank);
    half_before = half;
  }
  result.cores.push_back(rest.reshape({half_before.size(0), limits.mode(limits.order() - 1), 1}) /
                         half_before.view({-1, 1, 1}));
  for (std::int64_t k = 0; k < limits.order(); ++k)
    result.cores[k] = result.cores[k].reshape(result.shape.core_shape(k)).contiguous();
  result.error_bound = std::sqrt(discarded_squares);
  return result;
}

}  // namespace comera::weights
