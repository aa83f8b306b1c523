// What rank changes need from an optimiser. optim implements it (own AdamW, adapter for torch::optim).
#pragma once

#include <comera/weights/decompose.h>

#include <torch/torch.h>

#include <vector>

namespace comera::weights {

/// A weight whose ranks have just changed.
struct WeightChange {
  TensorTrain weight;                     ///< as it is after the change
  std::vector<BondChange> changes;        ///< all its bonds, in order
  std::vector<torch::Tensor> old_scales;  ///< D_k before the change
};

class OptimiserState {
 public:
  virtual ~OptimiserState() = default;
  /// The moments follow the changes as the gradients of the same function do: kept entries stay bit for bit
  /// where a bond was cut by selection; otherwise first moments are multiplied by the Jacobian of the change
  /// and second moments by its squared entries. Leaves the optimiser ready for the next forward.
  virtual void apply(const std::vector<WeightChange>& changes) = 0;
  /// `parameter` was multiplied by `factor`, and the function kept as it was: m / factor, v / factor^2.
  virtual void rescale(const torch::Tensor& parameter, double factor) = 0;
  /// sqrt(bias-corrected second moment) + eps of all entries of `parameters`, one after the other in one flat
  /// tensor; for the proximal step of rank scales. Infinite for a parameter that was never stepped.
  virtual torch::Tensor denominators(const std::vector<torch::Tensor>& parameters) const = 0;
  /// Learning rate the parameter was last stepped with.
  virtual double learning_rate(const torch::Tensor& parameter) const = 0;
};

}  // namespace comera::weights
