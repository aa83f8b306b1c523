// Runs plans: whatever order, batching, copies and recomputation a plan::Plan says, as one differentiable
// function.
#pragma once

#include <comera/plan/plan.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace comera::exec {

using SharedPlan = std::shared_ptr<const plan::Plan>;
/// Sees each step that has run, with the multiply-adds that it took.
using Observer = std::function<void(const plan::Step&, std::int64_t multiply_adds)>;

/// x [tokens, m1 * m2 * ..] -> [tokens, n1 * n2 * ..] (several layers that run as one: side by side),
/// differentiable once with respect to x and the cores. `cores` have the dimensions of the plan's leaves: [r,
/// s, r'], several layers [layers, r, s, r'], for a dense plan [in, out]; rank scales are folded in already.
/// tokens: 1 to those of the plan, more than 1 unless the plan is for 1. Allocates and frees what the plan
/// says, and copies x or dY where they do not lie contiguous. Throws Error for sizes or a type that are not
/// the plan's, and for a gradient that it does not have.
torch::Tensor run_plan(const SharedPlan& plan, const torch::Tensor& x,
                       const std::vector<torch::Tensor>& cores, Observer observe = {});

/// Y = X W + bias of one layer by its plan: x [..., rows] -> [..., cols]. Folds the rank scales into the
/// cores and handles padding; any number of tokens up to the plan's. None at all, or one by a plan for more,
/// run in two groups.
torch::Tensor planned_linear(const SharedPlan& plan, const torch::Tensor& x,
                             const weights::TensorTrain& weight, const std::optional<torch::Tensor>& bias);

namespace reference {
/// The same function by building W and one product.
torch::Tensor run_plan(const SharedPlan& plan, const torch::Tensor& x,
                       const std::vector<torch::Tensor>& cores);
}  // namespace reference

}  // namespace comera::exec
