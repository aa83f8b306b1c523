// What rank changes need from an optimiser. optim implements it (own AdamW, adapter for torch::optim).
#pragma once

#include <comera/weights/decompose.h>

#include <torch/torch.h>

#include <vector>

namespace comera::weights {

class OptimiserState {
 public:
  virtual ~OptimiserState() = default;
  /// `weight` has just changed from `old_cores` shapes by `changes` (all its bonds, in order). First moments
  /// follow the same map as gradients would; second moments: kept indices where a new rank continues an old
  /// one by selection, else the mean over the old slice. Must leave the optimiser ready for the next step.
  virtual void apply(const TensorTrain& weight, const std::vector<BondChange>& changes) = 0;
  /// `parameter` was multiplied by `factor`: m/factor, v/factor^2.
  virtual void rescale(const torch::Tensor& parameter, double factor) = 0;
  /// sqrt(bias-corrected second moment) + eps, shaped like `parameter`; for the proximal step of rank scales.
  virtual torch::Tensor denominator(const torch::Tensor& parameter) const = 0;
  /// Learning rate the parameter was last stepped with.
  virtual double learning_rate(const torch::Tensor& parameter) const = 0;
};

}  // namespace comera::weights
