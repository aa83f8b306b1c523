// What cutting a weight would do to the loss: temporary truncations, and the damage of every possible cut.
#pragma once

#include "allocation.h"

#include <comera/rank/options.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <vector>

namespace comera::rank {

/// Holds the values of a weight, which may be changed in place meanwhile, and puts them back at its end. The
/// geometry stays, so plans and optimisers notice nothing.
class TemporaryValues {
 public:
  explicit TemporaryValues(const weights::TensorTrain& weight);
  ~TemporaryValues();
  TemporaryValues(const TemporaryValues&) = delete;
  TemporaryValues& operator=(const TemporaryValues&) = delete;

  /// As if rounded to `ranks`; the ranks that would be cut are zero instead.
  void truncate(const std::vector<std::int64_t>& ranks);
  /// W = 0.
  void erase();

 private:
  weights::TensorTrain weight_;
  std::vector<torch::Tensor> saved_;  // cores, then scales
};

/// [bond][r]: sum of the squared singular values that are lost when r ranks are kept; r = 0..present rank.
using SquaredErrors = std::vector<std::vector<double>>;
SquaredErrors squared_errors(const weights::TensorTrain& weight);

/// Rise of the probed loss for each unit of squared error of the weight: through two truncations, to about
/// 15% and 40% of its norm. 0 when no truncation of that size exists.
double measure_sensitivity(const weights::NamedTensorTrain& weight, const SquaredErrors& errors,
                           const Probe& probe, double loss);

/// Sensitivities as they are used: every relative error counts the same where nothing was measured (no
/// probe); measured ones that are zero, negative or missing become a small part, or the middle, of the
/// others.
std::vector<double> settle_sensitivities(const std::vector<double>& measured,
                                         const std::vector<double>& squared_norms);

}  // namespace comera::rank
