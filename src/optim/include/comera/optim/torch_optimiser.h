// Rank changes for a user's own torch::optim optimiser.
#pragma once

#include <comera/weights/optimiser_state.h>
#include <comera/weights/torch.h>

#include <torch/optim.h>

namespace comera::optim {

/// Wraps a torch::optim::AdamW, Adam or SGD (any other: Error) for as long as it is used; the optimiser must
/// outlive it. Its state follows every cut: exp_avg, exp_avg_sq (and the running maximum of amsgrad), or the
/// momentum buffer. SGD has no second moment: its denominators are 1.
class TorchOptimiserState final : public weights::OptimiserState {
 public:
  explicit TorchOptimiserState(torch::optim::Optimizer& optimiser);

  void apply(const std::vector<weights::WeightChange>& changes) override;
  void rescale(const torch::Tensor& parameter, double factor) override;
  torch::Tensor denominators(const std::vector<torch::Tensor>& parameters) const override;
  double learning_rate(const torch::Tensor& parameter) const override;

 private:
  const torch::optim::OptimizerParamGroup& group_of(const torch::Tensor& parameter) const;

  torch::optim::Optimizer& optimiser_;
};

}  // namespace comera::optim
