#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/weights/initialise.h>
#include <comera/weights/norms.h>

#include <cmath>

namespace comera::weights {
namespace {

// Core k gets normal values of std stds[k], scales become ones.
void fill_normal(TensorTrain& weight, std::uint64_t key, const std::vector<double>& stds) {
  const torch::NoGradGuard no_grad;
  RandomStream random(key);
  const auto cores = weight.cores();
  for (std::size_t k = 0; k < cores.size(); ++k) {
    const torch::Tensor values = torch::empty(cores[k].sizes(), torch::kDouble);
    double* const value = values.data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) value[i] = stds[k] * random.normal();
    cores[k].copy_(values);
  }
  for (torch::Tensor scale : weight.scales()) scale.fill_(1);
  weight.values_changed();
}

// W becomes factor * W, every core alike.
void multiply(TensorTrain& weight, double factor) {
  const torch::NoGradGuard no_grad;
  const double per_core = std::pow(factor, 1.0 / static_cast<double>(weight.shape().order()));
  for (torch::Tensor core : weight.cores()) core.mul_(per_core);
  weight.values_changed();
}

std::vector<double> linear_stds(const format::Shape& shape) {
  std::vector<double> stds;
  for (std::int64_t k = 0; k < shape.order(); ++k) {
    const bool input_side = k < shape.split();
    const double d_in = static_cast<double>(shape.ranks[k] * (input_side ? shape.mode(k) : 1));
    const double d_out = static_cast<double>(shape.ranks[k + 1] * (input_side ? 1 : shape.mode(k)));
    stds.push_back(std::min(1.0, std::sqrt(d_out / d_in)) / std::sqrt(d_in));
  }
  return stds;
}

}  // namespace

void initialise_spectral(TensorTrain weight, std::uint64_t key, double gain) {
  const format::Shape& shape = weight.shape();
  check(shape.kind == format::Kind::tt,
        "[initialise_spectral] only for TT weights, got {}; use initialise_std", format::to_string(shape));
  check(gain > 0, "[initialise_spectral] gain must be positive, got {}", gain);
  if (shape.dead()) return;
  fill_normal(weight, key, linear_stds(shape));
  const double wanted =
      gain * (1 + std::sqrt(static_cast<double>(shape.cols) / static_cast<double>(shape.rows)));
  multiply(weight, wanted / spectral_norm(weight));
}

void initialise_std(TensorTrain weight, std::uint64_t key, double std) {
  const format::Shape& shape = weight.shape();
  check(std > 0, "[initialise_std] std must be positive, got {}", std);
  if (shape.dead()) return;
  fill_normal(weight, key,
              shape.kind == format::Kind::tt ? linear_stds(shape) : std::vector<double>(shape.order(), 1.0));
  const double count = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  multiply(weight, std * std::sqrt(count) / frobenius_norm(weight));
}

void initialise_published(TensorTrain weight, std::uint64_t key, double std) {
  const format::Shape& shape = weight.shape();
  check(std > 0, "[initialise_published] std must be positive, got {}", std);
  if (shape.dead()) return;
  // Var W = prod_k core variance * prod_k r_k.
  double paths = 1;
  for (const std::int64_t rank : shape.ranks) paths *= static_cast<double>(rank);
  const double core_std = std::pow(std * std / paths, 0.5 / static_cast<double>(shape.order()));
  fill_normal(weight, key, std::vector<double>(shape.order(), core_std));
}

void zero_last_core(TensorTrain weight) {
  const torch::NoGradGuard no_grad;
  weight.cores().back().zero_();
  weight.values_changed();
}

}  // namespace comera::weights
