#include <comera/base/error.h>
#include <comera/optim/torch_optimiser.h>

#include <cmath>
#include <limits>

namespace comera::optim {
namespace {

/// The state of one parameter, whatever the optimiser calls its parts.
struct Moments {
  torch::Tensor* first = nullptr;  // momentum of SGD
  std::vector<torch::Tensor*> second;
  double denominator_correction = 1;  // sqrt(v) / this + epsilon
  double epsilon = 0;
};

template <class State, class Options>
Moments adam_moments(torch::optim::OptimizerParamState& state,
                     const torch::optim::OptimizerOptions& options) {
  auto& adam = static_cast<State&>(state);
  const auto& chosen = static_cast<const Options&>(options);
  Moments moments;
  moments.first = &adam.exp_avg();
  moments.second.push_back(&adam.exp_avg_sq());
  if (adam.max_exp_avg_sq().defined()) moments.second.push_back(&adam.max_exp_avg_sq());
  moments.denominator_correction =
      std::sqrt(1 - std::pow(std::get<1>(chosen.betas()), static_cast<double>(adam.step())));
  moments.epsilon = chosen.eps();
  return moments;
}

enum class Family { adam, adamw, sgd };

Family family_of(const torch::optim::Optimizer& optimiser) {
  if (dynamic_cast<const torch::optim::AdamW*>(&optimiser)) return Family::adamw;
  if (dynamic_cast<const torch::optim::Adam*>(&optimiser)) return Family::adam;
  check(dynamic_cast<const torch::optim::SGD*>(&optimiser) != nullptr,
        "[torch optimiser] rank changes are known for torch::optim::AdamW, Adam and SGD only; use one of "
        "them or "
        "comera::optim::AdamW");
  return Family::sgd;
}

/// Empty when the parameter was never stepped.
Moments moments_of(torch::optim::Optimizer& optimiser, const torch::Tensor& parameter,
                   const torch::optim::OptimizerParamGroup& group) {
  const auto found = optimiser.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimiser.state().end()) return {};
  torch::optim::OptimizerParamState& state = *found->second;
  switch (family_of(optimiser)) {
    case Family::adam:
      return adam_moments<torch::optim::AdamParamState, torch::optim::AdamOptions>(state, group.options());
    case Family::adamw:
      return adam_moments<torch::optim::AdamWParamState, torch::optim::AdamWOptions>(state, group.options());
    case Family::sgd: {
      Moments moments;
      auto& sgd = static_cast<torch::optim::SGDParamState&>(state);
      if (sgd.momentum_buffer().defined()) moments.first = &sgd.momentum_buffer();
      return moments;
    }
  }
  return {};
}

}  // namespace

TorchOptimiserState::TorchOptimiserState(torch::optim::Optimizer& optimiser) : optimiser_(optimiser) {
  family_of(optimiser);
}

const torch::optim::OptimizerParamGroup& TorchOptimiserState::group_of(const torch::Tensor& parameter) const {
  for (const auto& group : optimiser_.param_groups())
    for (const torch::Tensor& candidate : group.params())
      if (candidate.is_same(parameter)) return group;
  fail("[torch optimiser] a tensor of sizes [{}] is not one of the optimiser's parameters",
       fmt::join(parameter.sizes(), ","));
}

void TorchOptimiserState::apply(const std::vector<weights::WeightChange>& changes) {
  const torch::NoGradGuard no_grad;
  for (const auto& [weight, bonds] : changes) {
    const auto cores = weight.cores(), scales = weight.scales();
    for (std::size_t k = 0; k < cores.size(); ++k) {
      const Moments moments = moments_of(optimiser_, cores[k], group_of(cores[k]));
      if (moments.first) *moments.first = weights::transform_first_moment(*moments.first, bonds, k);
      for (torch::Tensor* second : moments.second)
        *second = weights::transform_second_moment(*second, bonds, k);
    }
    for (std::size_t k = 0; k < scales.size(); ++k) {
      const Moments moments = moments_of(optimiser_, scales[k], group_of(scales[k]));
      if (moments.first) *moments.first = weights::transform_scale_first_moment(*moments.first, bonds[k]);
      for (torch::Tensor* second : moments.second)
        *second = weights::transform_scale_second_moment(*second, bonds[k]);
    }
  }
}

void TorchOptimiserState::rescale(const torch::Tensor& parameter, double factor) {
  const torch::NoGradGuard no_grad;
  const Moments moments = moments_of(optimiser_, parameter, group_of(parameter));
  if (moments.first) moments.first->div_(factor);
  for (torch::Tensor* second : moments.second) second->div_(factor * factor);
}

torch::Tensor TorchOptimiserState::denominators(const std::vector<torch::Tensor>& parameters) const {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& parameter : parameters) {
    const Moments moments = moments_of(optimiser_, parameter, group_of(parameter));
    if (!moments.second.empty())
      rows.push_back(moments.second.back()
                         ->reshape({-1})
                         .sqrt()
                         .div_(moments.denominator_correction)
                         .add_(moments.epsilon));
    else
      rows.push_back(
          torch::full({parameter.numel()},
                      family_of(optimiser_) == Family::sgd ? 1.0 : std::numeric_limits<double>::infinity(),
                      parameter.options().requires_grad(false)));
  }
  return torch::cat(rows);
}

double TorchOptimiserState::learning_rate(const torch::Tensor& parameter) const {
  return group_of(parameter).options().get_lr();
}

}  // namespace comera::optim
