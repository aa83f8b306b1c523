#include "truncation.h"

#include <comera/weights/rounding.h>

#include <algorithm>
#include <cmath>

namespace comera::rank {
namespace {

/// `tensor` in the first entries of every dimension of a tensor like `place`, zero elsewhere.
torch::Tensor padded_like(const torch::Tensor& tensor, const torch::Tensor& place) {
  torch::Tensor result = torch::zeros_like(place);
  torch::Tensor corner = result;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) corner = corner.narrow(d, 0, tensor.size(d));
  corner.copy_(tensor);
  return result;
}

std::vector<torch::Tensor> all_parameters(const weights::TensorTrain& weight) {
  std::vector<torch::Tensor> parameters = weight.cores();
  for (const torch::Tensor& scale : weight.scales()) parameters.push_back(scale);
  return parameters;
}

}  // namespace

TemporaryValues::TemporaryValues(const weights::TensorTrain& weight) : weight_(weight) {
  for (const torch::Tensor& parameter : all_parameters(weight)) saved_.push_back(parameter.detach().clone());
}

TemporaryValues::~TemporaryValues() {
  const torch::NoGradGuard no_grad;
  const auto parameters = all_parameters(weight_);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(saved_[i]);
  weight_.values_changed();
}

void TemporaryValues::truncate(const std::vector<std::int64_t>& ranks) {
  const torch::NoGradGuard no_grad;
  const auto changes = weights::round_to_ranks(weight_, "truncation", ranks);
  const auto cores = weight_.cores(), scales = weight_.scales();
  for (std::size_t k = 0; k < cores.size(); ++k)
    cores[k].copy_(
        padded_like(weights::transform_core(cores[k], k > 0 ? changes[k - 1].left : torch::Tensor(),
                                            k < changes.size() ? changes[k].right : torch::Tensor()),
                    cores[k]));
  for (std::size_t k = 0; k < scales.size(); ++k) scales[k].copy_(padded_like(changes[k].scales, scales[k]));
  weight_.values_changed();
}

void TemporaryValues::erase() {
  const torch::NoGradGuard no_grad;
  weight_.cores().back().zero_();
  weight_.values_changed();
}

SquaredErrors squared_errors(const weights::TensorTrain& weight) {
  SquaredErrors errors;
  for (const torch::Tensor& sigma : weights::bond_singular_values(weight)) {
    std::vector<double> lost(sigma.numel() + 1, 0.0);
    const double* values = sigma.const_data_ptr<double>();
    for (std::int64_t r = sigma.numel(); r-- > 0;) lost[r] = lost[r + 1] + values[r] * values[r];
    errors.push_back(std::move(lost));
  }
  return errors;
}

double measure_sensitivity(const weights::NamedTensorTrain& named, const SquaredErrors& errors,
                           const Probe& probe, double loss) {
  const auto& weight = named.weight;
  double rises = 0, squares = 0;
  for (const double tolerance : {0.15, 0.4}) {
    const std::vector<std::int64_t> ranks = weights::ranks_for_tolerance(weight, tolerance);
    double error = 0;
    for (std::size_t k = 0; k < ranks.size(); ++k) error += errors[k][ranks[k]];
    if (error == 0) continue;
    TemporaryValues values(weight);
    values.truncate(ranks);
    rises += (probe.loss() - loss) * error;
    squares += error * error;
  }
  return squares > 0 ? rises / squares : 0;
}

std::vector<double> settle_sensitivities(const std::vector<double>& measured,
                                         const std::vector<double>& squared_norms) {
  // Compared as rise of the loss for losing the whole weight.
  std::vector<double> whole;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (std::isfinite(measured[i]) && measured[i] > 0 && squared_norms[i] > 0)
      whole.push_back(measured[i] * squared_norms[i]);
  std::sort(whole.begin(), whole.end());
  const double middle = whole.empty() ? 1.0 : whole[whole.size() / 2];
  std::vector<double> settled;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (squared_norms[i] <= 0)
      settled.push_back(0);
    else if (measured[i] == 0 || !std::isfinite(measured[i]))
      settled.push_back(middle / squared_norms[i]);
    else
      settled.push_back(std::max(measured[i], 0.01 * middle / squared_norms[i]));
  }
  return settled;
}

}  // namespace comera::rank
