#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/ops/implementation.h>
#include <comera/ops/layer_norm.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;
using torch::Tensor;

namespace {

constexpr std::uint64_t kSeed = 31;

struct NormCase {
  std::string name;
  Sizes sizes;
  bool strided = false;
};

const std::vector<NormCase>& norm_cases() {
  static const std::vector<NormCase> cases = {
      {"plain", {3, 4, 50}},     {"batch_0", {0, 4, 8}},        {"one_vector", {9}},
      {"no_features", {3, 0}},   {"three_features", {3, 4, 3}}, {"one_block", {64, 20}},
      {"past_a_block", {65, 7}}, {"many_blocks", {9, 77, 33}},  {"strided", {3, 6, 20}, true},
  };
  return cases;
}

/// x, weight, bias.
Tensors make_inputs(const NormCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  Sizes sizes = c.sizes;
  if (c.strided) std::swap(sizes[0], sizes[2]);
  const Tensor x = normal(sizes, type);
  return {c.strided ? x.transpose(0, 2) : x, normal({c.sizes.back()}, type), normal({c.sizes.back()}, type)};
}

Tensors fused(const Tensors& t) { return {ops::layer_norm(t[0], t[1], t[2], 1e-5)}; }
Tensors reference(const Tensors& t) { return {ops::reference::layer_norm(t[0], t[1], t[2], 1e-5)}; }

class LayerNorm : public testing::TestWithParam<NormCase> {};

}  // namespace

TEST_P(LayerNorm, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    expect_like_reference(fused, reference, make_inputs(GetParam(), normal, type), normal);
  }
}

TEST_P(LayerNorm, GradientsAreTheDerivatives) {
  Normal normal(kSeed);
  expect_like_finite_differences(fused, make_inputs(GetParam(), normal), normal);
}

TEST_P(LayerNorm, ShapesWithoutValues) {
  Normal normal(kSeed);
  if (GetParam().strided) GTEST_SKIP() << "a new result is contiguous";
  expect_meta_shapes(fused, make_inputs(GetParam(), normal));
}

TEST_P(LayerNorm, SameBitsForAnyThreadCount) {
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused, make_inputs(GetParam(), normal, torch::kFloat32), normal);
}

INSTANTIATE_TEST_SUITE_P(Cases, LayerNorm, testing::ValuesIn(norm_cases()), case_name<NormCase>);

TEST(LayerNormArguments, WhatDoesNotFitIsRefused) {
  const Tensor x = torch::randn({3, 4}), four = torch::ones({4}), five = torch::ones({5});
  EXPECT_THROW(ops::layer_norm(x, five, four, 0), Error);
  EXPECT_THROW(ops::layer_norm(x, four, five, 0), Error);
  EXPECT_THROW(ops::layer_norm(x, four.to(torch::kFloat64), four, 0), Error);
  EXPECT_THROW(ops::layer_norm(x, four, four, -1), Error);
  EXPECT_THROW(ops::layer_norm(x.to(torch::kInt64), four, four, 0), Error);
  EXPECT_THROW(ops::layer_norm(torch::ones({}), four, four, 0), Error);
}

TEST(LayerNormGradients, ASecondDerivativeIsRefused) {
  if (ops::use_reference()) GTEST_SKIP() << "the reference has one";
  const Tensor x = torch::randn({3, 4}).requires_grad_(), ones = torch::ones({4});
  const Tensor y = ops::layer_norm(x, ones, ones, 1e-5).pow(2).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, true, true), Error);
}
