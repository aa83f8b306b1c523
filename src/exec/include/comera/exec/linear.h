// Runs the linear path in the order that is the default until a planner decides: two groups, split at the
// middle bond.
#pragma once

#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <optional>
#include <tuple>
#include <vector>

namespace comera::exec {

/// Factors of several TT weights with equal shapes: A [layers, rows, r], B [layers, r, cols], padding
/// removed. Differentiable with respect to cores and scales. Built once a step and used for any number of
/// forwards.
std::tuple<torch::Tensor, torch::Tensor> build_factors(const std::vector<weights::TensorTrain>& weights);

/// Y = (X A) B + bias for one weight's factors: x [..., rows] -> [..., cols].
torch::Tensor run_factors(const torch::Tensor& x, const torch::Tensor& a, const torch::Tensor& b,
                          const std::optional<torch::Tensor>& bias);

/// Both in one: for a module used alone.
torch::Tensor tt_linear(const torch::Tensor& x, const weights::TensorTrain& weight,
                        const std::optional<torch::Tensor>& bias);

}  // namespace comera::exec
