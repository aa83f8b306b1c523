// The checks that every operator passes, for any number of input tensors.
#pragma once

#include <comera/ops/implementation.h>
#include <comera/weights/torch.h>

#include <torch/library.h>

#include <gtest/gtest.h>
#include <tolerance.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace comera::test {

using Tensors = std::vector<torch::Tensor>;
/// An operator as a function of the tensors that may have gradients.
using Operator = std::function<Tensors(const Tensors&)>;

/// Seeded normal numbers on the host, so that every device sees the same.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}
  torch::Tensor operator()(torch::IntArrayRef sizes, torch::ScalarType type = torch::kFloat64) {
    return at::randn(sizes, generator_, torch::TensorOptions(torch::kFloat64)).to(test_device(), type);
  }
  torch::Tensor integers(std::int64_t below, torch::IntArrayRef sizes, torch::ScalarType type) {
    return at::randint(below, sizes, generator_, torch::TensorOptions(type)).to(test_device());
  }

 private:
  at::Generator generator_;
};

inline Tensors to(const Tensors& tensors, torch::ScalarType type) {
  Tensors result;
  for (const auto& tensor : tensors) result.push_back(tensor.to(type));
  return result;
}

/// Values of the operator and gradients of sum(weights * values) with respect to its inputs.
struct Evaluation {
  Tensors values, gradients;
};
inline Evaluation evaluate(const Operator& op, const Tensors& inputs, const Tensors& weights) {
  Tensors leaves;
  // view_as keeps strides: non-contiguous inputs stay so.
  for (const auto& input : inputs) leaves.push_back(input.detach().view_as(input).requires_grad_());
  const Tensors values = op(leaves);
  Tensors gradients = torch::autograd::grad(values, leaves, weights, false, false, true);
  return {values, gradients};
}

inline Tensors weights_for(const Operator& op, const Tensors& inputs, Normal& normal) {
  const torch::NoGradGuard no_grad;
  Tensors weights;
  for (const auto& value : op(inputs)) weights.push_back(normal(value.sizes(), value.scalar_type()));
  return weights;
}

/// Values and gradients of `op` against autograd through `reference`.
inline void expect_like_reference(const Operator& op, const Operator& reference, const Tensors& inputs,
                                  Normal& normal) {
  const Tensors weights = weights_for(reference, inputs, normal);
  const Evaluation actual = evaluate(op, inputs, weights), expected = evaluate(reference, inputs, weights);
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_TRUE(close(actual.values[i], expected.values[i], "value " + std::to_string(i)));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(close(actual.gradients[i], expected.gradients[i], "gradient of input " + std::to_string(i)));
}

/// Central differences along random directions, 1e-6 relative. Inputs in fp64.
inline void expect_like_finite_differences(const Operator& op, const Tensors& inputs, Normal& normal) {
  const Tensors weights = weights_for(op, inputs, normal);
  const Tensors gradients = evaluate(op, inputs, weights).gradients;
  const torch::NoGradGuard no_grad;
  const auto value_at = [&](const Tensors& directions, double step) {
    Tensors moved;
    for (std::size_t i = 0; i < inputs.size(); ++i) moved.push_back(inputs[i] + step * directions[i]);
    const Tensors values = op(moved);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += (values[i] * weights[i]).sum().item<double>();
    return sum;
  };
  // One input at a time, so that none hides behind the others.
  for (std::size_t moved = 0; moved < inputs.size(); ++moved) {
    Tensors directions;
    double predicted = 0, size = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      directions.push_back(i == moved ? normal(inputs[i].sizes()) : torch::zeros_like(inputs[i]));
      if (i != moved) continue;
      predicted = (directions[i] * gradients[i]).sum().item<double>();
      size = (directions[i] * gradients[i]).abs().sum().item<double>();
    }
    constexpr double kStep = 1e-4;
    const double measured = (value_at(directions, kStep) - value_at(directions, -kStep)) / (2 * kStep);
    EXPECT_NEAR(measured, predicted, 1e-6 * std::max(size, 1e-3)) << "derivative along input " << moved;
  }
}

/// The operator on tensors without values gives tensors of the same sizes, types and strides.
inline void expect_meta_shapes(const Operator& op, const Tensors& inputs) {
  const torch::NoGradGuard no_grad;
  Tensors without_values;
  for (const auto& input : inputs)
    without_values.push_back(
        at::empty_strided(input.sizes(), input.strides(), input.options().device(torch::kMeta)));
  const Tensors expected = op(inputs), actual = op(without_values);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(actual[i].is_meta());
    EXPECT_EQ(actual[i].sizes(), expected[i].sizes());
    EXPECT_EQ(actual[i].strides(), expected[i].strides());
    EXPECT_EQ(actual[i].scalar_type(), expected[i].scalar_type());
  }
}

/// Values and gradients have the same bits for any number of threads. References are torch's own operators,
/// which do not promise it.
inline void expect_same_for_any_thread_count(const Operator& op, const Tensors& inputs, Normal& normal) {
  if (ops::use_reference()) return;
  const Tensors weights = weights_for(op, inputs, normal);
  const int threads_before = at::get_num_threads();
  at::set_num_threads(1);
  const Evaluation expected = evaluate(op, inputs, weights);
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    const Evaluation actual = evaluate(op, inputs, weights);
    for (std::size_t i = 0; i < expected.values.size(); ++i)
      EXPECT_TRUE(actual.values[i].equal(expected.values[i]))
          << "value " << i << ", " << threads << " threads";
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(actual.gradients[i].equal(expected.gradients[i]))
          << "gradient of input " << i << ", " << threads << " threads";
  }
  at::set_num_threads(threads_before);
}

}  // namespace comera::test
