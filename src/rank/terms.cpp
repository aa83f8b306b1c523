// The terms beside the loss: l2 and published size through gradients, count prices through a proximal step.
#include "controller_state.h"

#include <algorithm>

namespace comera::rank {
namespace {

constexpr double kLargestShrink = 0.05;  // of a rank scale in one step

}  // namespace

double Controller::State::price() const {
  if (stage == Stage::fixed || gamma.value_or(0) == 0) return 0;
  if (stage == Stage::late && has_phases()) return late.price();
  return *gamma * price_ramp(options, progress);
}

double Controller::State::l2_strength() const {
  if (stage == Stage::fixed) return 0;
  return gamma.value_or(0) * (stage == Stage::early ? price_ramp(options, progress) : 1);
}

void Controller::before_step() {
  const torch::NoGradGuard no_grad;
  State& state = *state_;
  const double price = state.price() / static_cast<double>(state.start_size);
  const bool published = state.options.rule == Rule::published;
  for (std::size_t i = 0; i < state.weights.size(); ++i) {
    const auto& weight = state.weights[i].weight;
    const format::Shape& shape = weight.shape();
    if (shape.dead()) continue;
    std::vector<torch::Tensor> values, gradients;
    for (const torch::Tensor& core : weight.cores())
      if (core.grad().defined()) values.push_back(core.detach()), gradients.push_back(core.grad());
    const double l2 = state.l2_units[i] * state.l2_strength();
    if (l2 > 0 && !values.empty()) at::_foreach_add_(gradients, values, 2 * l2);
    if (!published || price == 0) continue;
    const auto scales = weight.scales();
    std::vector<torch::Tensor> norms = {torch::ones({}, scales[0].options())};
    for (const torch::Tensor& scale : scales) norms.push_back(scale.detach().abs().sum());
    norms.push_back(norms[0]);
    for (std::int64_t k = 0; k < shape.bonds(); ++k)
      if (scales[k].grad().defined())
        scales[k].mutable_grad().add_(
            scales[k].sign() * (norms[k] * shape.mode(k) + norms[k + 2] * shape.mode(k + 1)), price);
  }
}

torch::Tensor Controller::penalised(const torch::Tensor& loss) const {
  const State& state = *state_;
  const double price = state.price() / static_cast<double>(state.start_size);
  torch::Tensor total = loss;
  for (std::size_t i = 0; i < state.weights.size(); ++i) {
    const auto& weight = state.weights[i].weight;
    const format::Shape& shape = weight.shape();
    const double l2 = state.l2_units[i] * state.l2_strength();
    if (shape.dead()) continue;
    if (l2 > 0)
      for (const torch::Tensor& core : weight.cores()) total = total + core.square().sum() * l2;
    if (state.options.rule != Rule::published || price == 0) continue;
    torch::Tensor left = torch::ones({}, loss.options());
    for (std::int64_t k = 0; k < shape.order(); ++k) {
      const torch::Tensor right = k < shape.bonds() ? weight.scales()[k].abs().sum() : torch::ones_like(left);
      total = total + left * right * (price * static_cast<double>(shape.mode(k)));
      left = right;
    }
  }
  return total;
}

// Proximal step: what Adam did for the loss alone, then a soft threshold in the same metric.
void Controller::State::shrink(weights::OptimiserState& optimiser) {
  const double price = this->price();
  if (price == 0 || options.rule == Rule::published || table->parameters().empty()) return;
  const torch::NoGradGuard no_grad;
  std::vector<double> thresholds;
  std::size_t bond = 0;
  for (const auto& [name, weight] : weights) {
    const format::Shape& shape = weight.shape();
    const auto scales = weight.scales();
    for (std::int64_t k = 0; k < shape.bonds(); ++k, ++bond) {
      const std::int64_t before = k == 0 ? 1 : live[bond - 1],
                         after = k + 1 == shape.bonds() ? 1 : live[bond + 1];
      const double cost = static_cast<double>(shape.mode(k) * before + shape.mode(k + 1) * after + 1);
      thresholds.push_back(optimiser.learning_rate(scales[k]) * price * cost /
                           static_cast<double>(start_size));
    }
  }
  const bool size_phase = stage == Stage::late && has_phases() && late.phase == Phase::size;
  const double largest = size_phase ? std::min(kLargestShrink, 0.2 / LateStage::kHold) : kLargestShrink;
  const torch::Tensor values = table->values();
  torch::Tensor threshold =
      (table->spread(thresholds) / optimiser.denominators(table->parameters())).clamp_max_(largest);
  if (target_size > 0) threshold *= table->live_parameters(values) > target_size;
  const torch::Tensor magnitude = values.abs();
  const torch::Tensor left = (magnitude - threshold).clamp_min_(0);
  // The last entry of a bond stays: whether a whole layer can go is not for a threshold to decide. One alone,
  // also where all are equal, as in a layer that gets no gradient.
  const torch::Tensor last =
      (table->largest_in_bond(left) == 0).logical_and_(table->first_largest(magnitude));
  const torch::Tensor shrunk = torch::where(last, values, values.sign() * left);
  table->write(shrunk);
  zero_streak = (zero_streak + 1) * (shrunk == 0);
  for (auto& [name, weight] : weights) weight.values_changed();
}

}  // namespace comera::rank
