#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/ops/attention.h>
#include <comera/ops/implementation.h>

#include <allocation_probe.h>
#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;
using ops::DropoutMask;
using torch::Tensor;

namespace {

constexpr std::uint64_t kSeed = 31;

struct AttentionCase {
  std::string name;
  std::int64_t batch, positions, heads, d;
  bool causal = false;
  Sizes lengths = {};  ///< empty = all positions are real
  double p = 0;
};

/// Shapes that cross the borders of vectors, groups of the mask and blocks of queries.
const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> cases = {
      {"plain", 2, 7, 2, 5},
      {"dropout", 2, 7, 2, 5, false, {}, 0.25},
      {"causal", 2, 7, 2, 5, true},
      {"causal_dropout", 2, 7, 2, 5, true, {}, 0.25},
      {"lengths", 4, 7, 2, 5, false, {0, 1, 4, 7}},
      {"lengths_dropout", 4, 7, 2, 5, false, {0, 1, 4, 7}, 0.25},
      {"lengths_causal_dropout", 4, 7, 2, 5, true, {0, 1, 4, 7}, 0.25},
      {"all_lengths_0", 2, 7, 2, 5, false, {0, 0}, 0.25},
      {"batch_0", 0, 7, 2, 5, false, {}, 0.25},
      {"no_positions", 2, 0, 2, 5, false, {}, 0.25},
      {"no_features", 2, 7, 2, 0},
      {"one_position", 2, 1, 2, 5, true, {}, 0.25},
      {"one_head", 2, 20, 1, 3, false, {}, 0.25},
      {"one_feature", 3, 20, 1, 1, true, {}, 0.25},
      {"many_heads", 1, 5, 17, 2, false, {}, 0.25},
      {"one_group", 1, 128, 2, 16, false, {}, 0.25},
      {"past_a_block", 2, 129, 3, 8, false, {129, 128}, 0.25},
      {"past_a_block_causal", 2, 129, 3, 8, true, {127, 129}, 0.25},
      {"several_blocks", 1, 300, 2, 4, false, {}, 0.25},
      {"several_blocks_causal", 2, 300, 2, 4, true, {300, 257}, 0.25},
      {"p_almost_1", 2, 20, 2, 4, false, {}, 0.999999},
  };
  return cases;
}

Tensors make_inputs(const AttentionCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  Tensors inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(normal({c.batch, c.positions, c.heads * c.d}, type));
  return inputs;
}

DropoutMask mask_for(const AttentionCase& c) {
  return {c.p, random_key(1, 2, 3), (torch::arange(c.batch, torch::kInt64) * 1000 + 7).to(test_device())};
}

Operator with(decltype(&ops::attention) implementation, const AttentionCase& c) {
  return [=, mask = mask_for(c)](const Tensors& t) {
    std::optional<Tensor> lengths;
    if (!c.lengths.empty()) lengths = torch::tensor(c.lengths, torch::kInt64).to(t[0].device());
    const DropoutMask m = {mask.p, mask.key, mask.sample_ids.to(t[0].device())};
    return Tensors{implementation(t[0], t[1], t[2], c.heads, lengths, c.causal, m)};
  };
}
Operator fused(const AttentionCase& c) { return with(ops::attention, c); }
Operator reference(const AttentionCase& c) { return with(ops::reference::attention, c); }

class Attention : public testing::TestWithParam<AttentionCase> {};

}  // namespace

TEST_P(Attention, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  // One visible key leaves q and k without a gradient: nothing to be relative to but rounding.
  const bool trivial = GetParam().positions == 1;
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    SCOPED_TRACE(c10::toString(type));
    Tensors inputs = make_inputs(GetParam(), normal, type);
    if (!trivial) {
      expect_like_reference(fused(GetParam()), reference(GetParam()), inputs, normal);
    } else {
      EXPECT_TRUE(close(fused(GetParam())(inputs)[0], reference(GetParam())(inputs)[0], "value"));
    }
  }
}

TEST_P(Attention, TensorOperationsServeOtherTypes) {
  Normal normal(kSeed);
  const Tensors inputs = to(make_inputs(GetParam(), normal), torch::kBFloat16);
  EXPECT_TRUE(close(fused(GetParam())(inputs)[0], reference(GetParam())(inputs)[0], "value"));
}

TEST_P(Attention, GradientsAreFiniteDifferences) {
  if (GetParam().positions > 20) GTEST_SKIP() << "small cases only";
  Normal normal(kSeed);
  expect_like_finite_differences(fused(GetParam()), make_inputs(GetParam(), normal), normal);
}

TEST_P(Attention, ShapesWithoutValues) {
  Normal normal(kSeed);
  expect_meta_shapes(fused(GetParam()), make_inputs(GetParam(), normal));
}

TEST_P(Attention, SameBitsForAnyThreadCount) {
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused(GetParam()), make_inputs(GetParam(), normal, torch::kFloat32),
                                   normal);
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention, testing::ValuesIn(attention_cases()), case_name<AttentionCase>);

TEST(AttentionPadding, DoesNotChangeASampleAndGivesZeros) {
  Normal normal(kSeed);
  const AttentionCase c = {"lengths", 3, 140, 2, 8, false, {40, 133, 140}, 0.2};
  const Tensors inputs = make_inputs(c, normal);
  const Tensor together = fused(c)(inputs)[0];
  const DropoutMask mask = mask_for(c);
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto alone = [&](const Tensor& t) { return t.slice(0, b, b + 1).slice(1, 0, c.lengths[b]); };
    const Tensor result =
        ops::attention(alone(inputs[0]), alone(inputs[1]), alone(inputs[2]), c.heads, std::nullopt, false,
                       {mask.p, mask.key, mask.sample_ids.slice(0, b, b + 1)});
    EXPECT_TRUE(close(result, alone(together), "sample"));
    EXPECT_EQ(together[b].slice(0, c.lengths[b]).count_nonzero().item<std::int64_t>(), 0);
  }
}

TEST(AttentionPadding, IsNeverRead) {
  Normal normal(kSeed);
  const AttentionCase c = {"lengths", 2, 20, 2, 4, false, {5, 13}, 0.2};
  const Tensors inputs = make_inputs(c, normal);
  Tensors poisoned;
  for (const Tensor& x : inputs) {
    poisoned.push_back(x.clone());
    for (std::int64_t b = 0; b < 2; ++b) poisoned.back()[b].slice(0, c.lengths[b]).fill_(NAN);
  }
  if (ops::use_reference() || test_device().is_cuda()) GTEST_SKIP() << "tensor operations read all";
  const Tensors weights = {normal({2, 20, 8})};
  const Evaluation clean = evaluate(fused(c), inputs, weights), other = evaluate(fused(c), poisoned, weights);
  EXPECT_TRUE(other.values[0].equal(clean.values[0]));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(other.gradients[i].equal(clean.gradients[i]));
}

TEST(AttentionLayouts, SlicesAndExpandedGradientsAreTaken) {
  Normal normal(kSeed);
  const auto sum_of = [](decltype(&ops::attention) implementation, const Tensor& all) {
    const auto parts = all.chunk(3, 2);
    return implementation(parts[0], parts[1], parts[2], 3, std::nullopt, false, {}).sum();
  };
  for (const bool transposed : {false, true}) {
    const Tensor all =
        (transposed ? normal({2, 36, 9}).transpose(1, 2) : normal({2, 9, 36})).requires_grad_();
    EXPECT_TRUE(close(torch::autograd::grad({sum_of(ops::attention, all)}, {all})[0],
                      torch::autograd::grad({sum_of(ops::reference::attention, all)}, {all})[0], "gradient"));
  }
}

TEST(AttentionDropout, DropsAtTheRateAndHeadsAreIndependent) {
  const std::int64_t positions = 64, heads = 4;
  const double p = 0.3;
  // Equal scores and one-hot values show the probabilities of all keys.
  const Tensor zeros = torch::zeros({2, positions, heads * positions}).to(test_device());
  const Tensor values = torch::eye(positions).repeat({1, heads}).expand_as(zeros).to(test_device());
  const Tensor kept = ops::attention(zeros, zeros, values, heads, std::nullopt, false,
                                     {p, 99, torch::arange(2).to(test_device())})
                          .gt(0)
                          .to(torch::kCPU, torch::kFloat64)
                          .view({2, positions, heads, positions});
  const double count = static_cast<double>(kept.numel());
  EXPECT_NEAR(kept.mean().item<double>(), 1 - p, 5 * std::sqrt(p * (1 - p) / count));
  const Tensor centred = kept - (1 - p);
  const double between = (centred.select(2, 0) * centred.select(2, 1)).sum().item<double>() / (p * (1 - p)) /
                         std::sqrt(count / heads);
  EXPECT_LT(std::abs(between), 5);
}

TEST(AttentionMemory, LongSequencesStayInBlocks) {
  if (ops::use_reference() || test_device().is_cuda()) GTEST_SKIP() << "blocks are for the CPU";
  Normal normal(kSeed);
  const AttentionCase c = {"long", 1, 4096, 1, 4, true, {}, 0.1};
  const Tensors inputs = make_inputs(c, normal, torch::kFloat32);
  const Tensors weights = {normal({1, 4096, 4}, torch::kFloat32)};
  AllocationProbe probe;
  const Evaluation evaluation = evaluate(fused(c), inputs, weights);
  // All scores at once would take 64 MiB.
  EXPECT_LT(probe.counts().peak_bytes, (std::int64_t{3} << 20) * at::get_num_threads());
  EXPECT_TRUE(evaluation.values[0].isfinite().all().item<bool>());
  for (const Tensor& gradient : evaluation.gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

TEST(AttentionGradients, ASecondDerivativeIsRefused) {
  if (ops::use_reference() || test_device().is_cuda()) GTEST_SKIP() << "tensor operations have one";
  Normal normal(kSeed);
  const Tensor x = normal({1, 3, 4}).requires_grad_();
  const Tensor y = ops::attention(x, x, x, 2, std::nullopt, false, {});
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, true, true), Error);
}

TEST(AttentionArguments, WhatDoesNotFitIsRefused) {
  const Tensor x = torch::randn({2, 3, 8});
  const auto with_lengths = [&](Sizes lengths) {
    return ops::attention(x, x, x, 2, torch::tensor(lengths, torch::kInt64), false, {});
  };
  const auto with_heads = [&](std::int64_t heads) {
    return ops::attention(x, x, x, heads, std::nullopt, false, {});
  };
  EXPECT_THROW(with_heads(3), Error);
  EXPECT_THROW(with_heads(0), Error);
  EXPECT_THROW(with_lengths({3, 4}), Error);
  EXPECT_THROW(with_lengths({-1, 3}), Error);
  EXPECT_THROW(with_lengths({1}), Error);
  EXPECT_THROW(ops::attention(x, x.slice(1, 0, 2), x, 2, std::nullopt, false, {}), Error);
  EXPECT_THROW(ops::attention(x[0], x[0], x[0], 2, std::nullopt, false, {}), Error);
  EXPECT_THROW(ops::attention(x, x, x, 2, std::nullopt, false, {0.5, 1, torch::arange(3)}), Error);
  EXPECT_THROW(ops::attention(x, x, x, 2, std::nullopt, false, {0.5, 1, {}}), Error);
}
