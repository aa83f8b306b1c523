// What rank changes need from an optimiser. optim implements it (own AdamW, adapter for torch::optim).
#pragma once

#include <comera/weights/bond_change.h>
#include <comera/weights/torch.h>

#include <vector>

namespace comera::weights {

class OptimiserState {
 public:
  virtual ~OptimiserState() = default;
  /// The weights have just changed (weights::apply); the moments still have their old sizes and follow by
  /// transform_first_moment, transform_second_moment and their scale_ forms, which keep entries bit for bit
  /// where a bond was cut by selection. All weights of one cut come in one call, so that flat storage is
  /// packed once. Leaves the optimiser ready for the next forward.
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
