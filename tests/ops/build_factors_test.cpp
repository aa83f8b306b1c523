#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/ops/build_factors.h>
#include <comera/ops/implementation.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;

namespace {

constexpr std::uint64_t kSeed = 12;

/// Cores of all layers, then scales of all layers.
Tensors make_inputs(const FactorCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  Sizes modes = c.row_digits;
  modes.insert(modes.end(), c.col_digits.begin(), c.col_digits.end());
  Sizes ranks{1};
  ranks.insert(ranks.end(), c.ranks.begin(), c.ranks.end());
  ranks.push_back(1);
  Tensors inputs;
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (std::int64_t k = 0; k < c.order(); ++k)
      inputs.push_back(normal({ranks[k], modes[k], ranks[k + 1]}, type));
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (std::int64_t k = 1; k < c.order(); ++k) inputs.push_back(normal({ranks[k]}, type));
  return inputs;
}

template <class Build>
Operator operator_of(const FactorCase& c, const Build& build) {
  return [=](const Tensors& inputs) -> Tensors {
    const torch::TensorList all(inputs);
    const std::size_t cores = c.layers * c.order();
    const auto [a, b] = build(all.slice(0, cores), all.slice(cores), c.layers, c.row_digits.size());
    return {a, b};
  };
}
Operator fused(const FactorCase& c) { return operator_of(c, ops::build_factors); }
Operator reference(const FactorCase& c) { return operator_of(c, ops::reference::build_factors); }

class BuildFactors : public testing::TestWithParam<FactorCase> {};

}  // namespace

TEST_P(BuildFactors, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    SCOPED_TRACE(c10::toString(type));
    expect_like_reference(fused(GetParam()), reference(GetParam()), make_inputs(GetParam(), normal, type),
                          normal);
  }
}

TEST_P(BuildFactors, GradientsAreFiniteDifferences) {
  Normal normal(kSeed);
  expect_like_finite_differences(fused(GetParam()), make_inputs(GetParam(), normal), normal);
}

TEST_P(BuildFactors, ShapesWithoutValues) {
  Normal normal(kSeed);
  expect_meta_shapes(fused(GetParam()), make_inputs(GetParam(), normal));
}

TEST_P(BuildFactors, SameBitsForAnyThreadCount) {
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused(GetParam()), make_inputs(GetParam(), normal, torch::kFloat32),
                                   normal);
}

TEST_P(BuildFactors, EveryEntryIsTheProductOfItsSlices) {
  const FactorCase& c = GetParam();
  if (c.layers * c.order() > 12) GTEST_SKIP() << "small cases only";
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const Tensors factors = fused(c)(inputs);
  const std::int64_t split = c.row_digits.size(), order = c.order();
  const auto slice = [&](std::int64_t layer, std::int64_t k, std::int64_t digit) {
    const auto matrix = inputs[layer * order + k].select(1, digit);
    return k + 1 < order ? matrix.matmul(inputs[c.layers * order + layer * (order - 1) + k].diag()) : matrix;
  };
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (const bool left : {true, false}) {
      const Sizes& digits = left ? c.row_digits : c.col_digits;
      const std::int64_t size = c10::multiply_integers(digits), first = left ? 0 : split;
      for (std::int64_t index = 0; index < size; ++index) {
        // Row-major digits, the first the most significant.
        torch::Tensor product;
        std::int64_t below = size, rest = index;
        for (std::size_t k = 0; k < digits.size(); ++k) {
          below /= digits[k];
          const auto next = slice(layer, first + k, rest / below);
          rest %= below;
          product = product.defined() ? product.matmul(next) : next;
        }
        const auto expected = left ? product.squeeze(0) : product.squeeze(1);
        const auto actual = left ? factors[0][layer][index] : factors[1][layer].select(1, index);
        ASSERT_TRUE(close(actual, expected, left ? "row of A" : "column of B")) << layer << " " << index;
      }
    }
}

TEST_P(BuildFactors, IsTheSameThroughTheDispatcher) {
  const FactorCase& c = GetParam();
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const torch::TensorList all(inputs);
  const std::size_t cores = c.layers * c.order();
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("comera::build_factors", "");
  torch::jit::Stack stack{all.slice(0, cores).vec(), all.slice(cores).vec(), c.layers,
                          static_cast<std::int64_t>(c.row_digits.size())};
  op.callBoxed(stack);
  const Tensors expected = fused(c)(inputs);
  ASSERT_EQ(stack.size(), 2);
  for (const std::size_t i : {0, 1}) EXPECT_TRUE(stack[i].toTensor().equal(expected[i]));
}

INSTANTIATE_TEST_SUITE_P(Cases, BuildFactors, testing::ValuesIn(factor_cases()), case_name<FactorCase>);

TEST(BuildFactorsGradients, FrozenScalesOrCores) {
  const FactorCase c{"layers", 2, {3, 2}, {2, 5}, {3, 4, 2}};
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const Tensors weights = weights_for(reference(c), inputs, normal);
  const Evaluation all = evaluate(reference(c), inputs, weights);
  const std::size_t cores = c.layers * c.order();
  for (const bool train_cores : {true, false}) {
    Tensors leaves, wanted, expected;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool wants = (i < cores) == train_cores;
      leaves.push_back(inputs[i].detach().requires_grad_(wants));
      if (!wants) continue;
      wanted.push_back(leaves[i]);
      expected.push_back(all.gradients[i]);
    }
    const Tensors gradients = torch::autograd::grad(fused(c)(leaves), wanted, weights);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(close(gradients[i], expected[i], "gradient " + std::to_string(i)));
  }
}

TEST(BuildFactorsGradients, CoresThatAreViewsOrNotContiguous) {
  const FactorCase c{"plain", 1, {3, 4}, {2, 5}, {3, 4, 2}};
  Normal normal(kSeed);
  Tensors inputs = make_inputs(c, normal);
  for (auto& input : inputs) input = input.transpose(0, -1).contiguous().transpose(0, -1);
  expect_like_reference(fused(c), reference(c), inputs, normal);
}

TEST(BuildFactorsInput, WhatDoesNotFitIsRefusedWithItsPlace) {
  const FactorCase c{"layers", 2, {3, 4}, {2, 5}, {3, 4, 2}};
  Normal normal(kSeed);
  const auto refused = [&](const Tensors& inputs, std::int64_t layers, std::int64_t split) -> std::string {
    const torch::TensorList all(inputs);
    try {
      ops::build_factors(all.slice(0, 8), all.slice(8), layers, split);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const Tensors good = make_inputs(c, normal);
  EXPECT_EQ(refused(good, 2, 2), "no error");
  EXPECT_EQ(refused(good, 2, 4), "[build_factors] expected a split from 1 to 3, got 4");
  EXPECT_EQ(refused(good, 3, 2),
            "[build_factors] expected 2 or more cores for each of 3 layers, got 8 in all");
  EXPECT_NE(refused(good, 0, 2), "no error");
  Tensors bad = good;
  bad[5] = normal({3, 4, 5});
  EXPECT_NE(refused(bad, 2, 2).find("core 1 of layer 1"), std::string::npos) << refused(bad, 2, 2);
  bad = good;
  bad[9] = normal({5});
  EXPECT_NE(refused(bad, 2, 2).find("the scale behind core 1 of layer 0"), std::string::npos)
      << refused(bad, 2, 2);
}
