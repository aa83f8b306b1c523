#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/ops/dropout.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;
using ops::DropoutMask;
using torch::Tensor;

namespace {

constexpr std::uint64_t kSeed = 21;

struct DropoutCase {
  std::string name;
  Sizes sizes;
  double p = 0.3;
  bool strided = false;
};

const std::vector<DropoutCase>& dropout_cases() {
  static const std::vector<DropoutCase> cases = {
      {"plain", {3, 4, 50}},
      {"batch_0", {0, 4, 8}},
      {"batch_1", {1, 4, 8}},
      {"no_positions", {3, 0, 8}},
      {"no_features", {3, 4, 0}},
      {"one_feature", {3, 4, 1}},
      {"one_group", {2, 3, 128}},
      {"past_a_group", {2, 3, 129}},
      {"several_tasks", {3, 40, 600}},
      {"p_0", {3, 4, 50}, 0},
      {"p_almost_1", {3, 4, 50}, 0.999999},
      {"strided", {3, 6, 20}, 0.3, true},
  };
  return cases;
}

DropoutMask mask_for(std::int64_t batch, double p) {
  const Tensor ids = torch::arange(batch, torch::kInt64) * ((std::int64_t{1} << 40) + 3) - 1;
  return {p, random_key(7, 3, 1), ids.to(test_device())};
}

/// x and the residual.
Tensors make_inputs(const DropoutCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  const auto make = [&] {
    if (!c.strided) return normal(c.sizes, type);
    return normal({c.sizes[0], c.sizes[2], c.sizes[1]}, type).transpose(1, 2);
  };
  return {make(), make()};
}

Operator fused(const DropoutCase& c) {
  const DropoutMask mask = mask_for(c.sizes[0], c.p);
  return [=](const Tensors& t) {
    const auto m = DropoutMask{mask.p, mask.key, mask.sample_ids.to(t[0].device())};
    return Tensors{ops::dropout(t[0], m), ops::dropout_add(t[0], t[1], m)};
  };
}

Operator reference(const DropoutCase& c) {
  const DropoutMask mask = mask_for(c.sizes[0], c.p);
  return [=](const Tensors& t) {
    return Tensors{ops::reference::dropout(t[0], mask), ops::reference::dropout_add(t[0], t[1], mask)};
  };
}

class Dropout : public testing::TestWithParam<DropoutCase> {};

}  // namespace

TEST_P(Dropout, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    expect_like_reference(fused(GetParam()), reference(GetParam()), make_inputs(GetParam(), normal, type),
                          normal);
  }
}

TEST_P(Dropout, ShapesWithoutValues) {
  Normal normal(kSeed);
  if (GetParam().strided || GetParam().p == 0)
    GTEST_SKIP() << "p 0 gives x itself, a new result is contiguous";
  expect_meta_shapes(fused(GetParam()), make_inputs(GetParam(), normal));
}

TEST_P(Dropout, SameBitsForAnyThreadCount) {
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused(GetParam()), make_inputs(GetParam(), normal, torch::kFloat32),
                                   normal);
}

TEST_P(Dropout, TensorOperationsMakeTheSameMask) {
  const DropoutMask mask = mask_for(GetParam().sizes[0], GetParam().p);
  const std::int64_t positions = GetParam().sizes[1], features = GetParam().sizes[2];
  EXPECT_TRUE(ops::dropout_keep(mask, positions, features)
                  .to(torch::kCPU, torch::kFloat64)
                  .equal(ops::reference::dropout_keep(mask, positions, features)));
}

INSTANTIATE_TEST_SUITE_P(Cases, Dropout, testing::ValuesIn(dropout_cases()), case_name<DropoutCase>);

TEST(DropoutGradients, HasASecondDerivative) {
  Normal normal(kSeed);
  const DropoutMask mask = mask_for(3, 0.3);
  const Tensor x = normal({3, 2, 9}).requires_grad_();
  const auto first = torch::autograd::grad({ops::dropout(x, mask).pow(3).sum()}, {x}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].sum()}, {x});
  const Tensor y = ops::reference::dropout(x, mask),
               scale = ops::reference::dropout(torch::ones_like(x), mask);
  EXPECT_TRUE(close(second[0], 6 * y * scale * scale, "second derivative"));
}

TEST(DropoutMask, MicroBatchesAndPaddingDoNotChangeIt) {
  Normal normal(kSeed);
  const DropoutMask whole = mask_for(3, 0.3);
  const Tensor x = normal({3, 8, 40}), y = ops::dropout(x, whole);
  for (int b = 0; b < 3; ++b) {
    const auto part = [&](const Tensor& t) { return t.slice(0, b, b + 1).slice(1, 0, 5); };
    const DropoutMask one = {whole.p, whole.key, whole.sample_ids.slice(0, b, b + 1)};
    EXPECT_TRUE(ops::dropout(part(x), one).equal(part(y)));
  }
}

TEST(DropoutMask, IsNotReadWithoutDropout) {
  Normal normal(kSeed);
  const Tensor x = normal({2, 3, 4});
  EXPECT_TRUE(ops::dropout(x, {}).is_same(x));
  EXPECT_TRUE(ops::dropout_add(x, x, {}).equal(x + x));
}

TEST(DropoutArguments, WhatDoesNotFitIsRefused) {
  Normal normal(kSeed);
  const auto ids = [](std::vector<std::int64_t> values) { return torch::tensor(values, torch::kInt64); };
  const Tensor x = torch::randn({3, 2, 4});
  EXPECT_THROW(ops::dropout(x, {1.0, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(ops::dropout(x, {-0.1, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(ops::dropout(x, {std::nan(""), 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(ops::dropout(x, {0.1, 1, ids({1, 2})}), Error);
  EXPECT_THROW(ops::dropout(x, {0.1, 1, torch::ones({3})}), Error);
  EXPECT_THROW(ops::dropout(x[0], {0.1, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(ops::dropout_add(x, x.slice(2, 0, 3), {0.1, 1, ids({1, 2, 3})}), Error);
}
