#include <comera/base/error.h>
#include <comera/exec/linear.h>
#include <comera/ops/build_factors.h>
#include <comera/ops/factored_linear.h>

namespace comera::exec {

std::tuple<torch::Tensor, torch::Tensor> build_factors(const std::vector<weights::TensorTrain>& weights) {
  check(!weights.empty(), "[build_factors] needs one weight or more");
  const format::Shape& shape = weights.front().shape();
  std::vector<torch::Tensor> cores, scales;
  for (const weights::TensorTrain& weight : weights) {
    check(weight.shape() == shape, "[build_factors] the weights of one call need one shape, got {} and {}",
          format::to_string(shape), format::to_string(weight.shape()));
    for (const torch::Tensor& core : weight.cores()) cores.push_back(core);
    for (const torch::Tensor& scale : weight.scales()) scales.push_back(scale);
  }
  auto [a, b] = ops::build_factors(cores, scales, static_cast<std::int64_t>(weights.size()), shape.split());
  if (a.size(1) != shape.rows) a = a.narrow(1, 0, shape.rows);
  if (b.size(2) != shape.cols) b = b.narrow(2, 0, shape.cols);
  return {a, b};
}

torch::Tensor run_factors(const torch::Tensor& x, const torch::Tensor& a, const torch::Tensor& b,
                          const std::optional<torch::Tensor>& bias) {
  return ops::factored_linear(x, a, b, bias);
}

torch::Tensor tt_linear(const torch::Tensor& x, const weights::TensorTrain& weight,
                        const std::optional<torch::Tensor>& bias) {
  const auto [a, b] = build_factors({weight});
  return run_factors(x, a[0], b[0], bias);
}

}  // namespace comera::exec
