#include "weight_cases.h"

#include <comera/base/error.h>
#include <comera/weights/bond_change.h>
#include <comera/weights/rounding.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;
using weights::materialize;

namespace {

// Per bond a random half of the ranks, at least one.
std::vector<List> random_selection(const Shape& shape, RandomStream& random) {
  std::vector<List> kept(shape.bonds());
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    for (std::int64_t j = 0; j < shape.rank(k); ++j)
      if (random.uniform() < 0.5) kept[k].push_back(j);
    if (kept[k].empty()) kept[k].push_back(random.below(shape.rank(k)));
  }
  return kept;
}

// Gradients of a fixed random linear function of W.
void backward(const weights::TensorTrain& weight, std::uint64_t seed) {
  RandomStream random(seed);
  const torch::Tensor w = materialize(weight);
  (w * random_tensor(w.sizes(), random)).sum().backward();
}

std::vector<torch::Tensor> gradients(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : parameters) result.push_back(parameter.grad().clone());
  return result;
}

}  // namespace

class Change : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Change, testing::ValuesIn(shape_cases()), name_of_index);

TEST_P(Change, CuttingZeroRanksKeepsTheOutputInSinglePrecision) {
  auto weight = random_weight(GetParam(), 1, torch::kFloat);
  RandomStream random(2);
  const auto kept = random_selection(GetParam(), random);
  {
    const torch::NoGradGuard no_grad;
    const auto scales = weight.scales();
    for (std::size_t k = 0; k < scales.size(); ++k) {
      const torch::Tensor zeroed = torch::zeros_like(scales[k]);
      for (const std::int64_t j : kept[k]) zeroed[j] = scales[k][j];
      scales[k].set_data(zeroed);
    }
  }
  const torch::Tensor before = materialize(weight).detach();
  weights::apply(weight, weights::slice(weight, "layer", kept));
  for (std::size_t k = 0; k < kept.size(); ++k) EXPECT_EQ(weight.shape().rank(k), kept[k].size());
  EXPECT_LE(relative_error(materialize(weight), before), 1e-6);
}

TEST_P(Change, SelectionKeepsValuesAndMomentsBitForBit) {
  auto weight = random_weight(GetParam(), 3, torch::kFloat);
  RandomStream random(4);
  const auto kept = random_selection(GetParam(), random);
  const auto changes = weights::slice(weight, "layer", kept);
  const auto selected = [&](torch::Tensor tensor, std::int64_t core) {
    const auto select = [&](std::int64_t bond, std::int64_t dim) {
      if (bond >= 0 && bond < GetParam().bonds())
        tensor = tensor.index_select(dim, torch::tensor(kept[bond]));
    };
    select(core - 1, 0), select(core, tensor.dim() - 1);
    return tensor;
  };
  const auto cores = weight.cores(), scales = weight.scales();
  std::vector<torch::Tensor> expected_cores, expected_scales;
  for (std::int64_t k = 0; k < GetParam().order(); ++k) {
    expected_cores.push_back(selected(cores[k].detach(), k).clone());
    const torch::Tensor moment = random_tensor(cores[k].sizes(), random).to(torch::kFloat);
    EXPECT_TRUE(weights::transform_first_moment(moment, changes, k).equal(selected(moment, k)));
    EXPECT_TRUE(
        weights::transform_second_moment(moment.square(), changes, k).equal(selected(moment.square(), k)));
  }
  for (std::int64_t k = 0; k < GetParam().bonds(); ++k) {
    expected_scales.push_back(scales[k].detach().index_select(0, torch::tensor(kept[k])).clone());
    const torch::Tensor moment = random_tensor(scales[k].sizes(), random).to(torch::kFloat);
    EXPECT_TRUE(weights::transform_scale_first_moment(moment, changes[k])
                    .equal(moment.index_select(0, torch::tensor(kept[k]))));
    EXPECT_TRUE(weights::transform_scale_second_moment(moment, changes[k])
                    .equal(moment.index_select(0, torch::tensor(kept[k]))));
    EXPECT_EQ(changes[k].change, (format::RankChange{"layer", k, GetParam().rank(k), kept[k]}));
  }
  weights::apply(weight, changes);
  for (std::int64_t k = 0; k < GetParam().order(); ++k)
    EXPECT_TRUE(weight.cores()[k].equal(expected_cores[k]));
  for (std::int64_t k = 0; k < GetParam().bonds(); ++k)
    EXPECT_TRUE(weight.scales()[k].equal(expected_scales[k]));
}

// The map of first moments is the one of gradients: for a change that keeps W, mapped gradients of the old
// cores are the gradients of the new ones. Zero scales are among the old ones.
TEST_P(Change, FirstMomentsFollowAsGradientsDo) {
  auto weight = random_weight(GetParam(), 5);
  // Ranks that can be cut without an error: zero scales, and those beyond what the digits allow.
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor scale : weight.scales())
      if (scale.size(0) > 1) scale[scale.size(0) / 2] = 0;
  }
  List ranks;
  const auto sigma = weights::bond_singular_values(weight);
  for (const auto& values : sigma)
    ranks.push_back(std::max<std::int64_t>(1, (values > 1e-10 * values[0]).sum().item<std::int64_t>()));
  backward(weight, 6);
  const auto old = gradients(weight.cores());
  const torch::Tensor before = materialize(weight).detach();
  const auto changes = weights::round_to_ranks(weight, "layer", ranks);
  weights::apply(weight, changes);
  ASSERT_LE(relative_error(materialize(weight), before), 1e-10);
  backward(weight, 6);
  for (std::int64_t k = 0; k < GetParam().order(); ++k) {
    const torch::Tensor wanted = weight.cores()[k].grad();
    EXPECT_LE(relative_error(weights::transform_first_moment(old[k], changes, k), wanted), 1e-8)
        << "core " << k;
  }
}

// With independent gradient entries of a known variance, the mapped second moment is the variance of the
// mapped ones.
TEST(Moments, SecondMomentsFollowTheVariance) {
  auto weight = random_weight(format::tt({4, 3}, {3, 4}, {3, 6, 3}), 7);
  const auto changes = weights::round_to_ranks(weight, "layer", {2, 3, 2});
  RandomStream random(8);
  const std::int64_t core = 1, samples = 4000;
  const torch::Tensor std = random_tensor(weight.cores()[core].sizes(), random).abs() + 0.1;
  torch::Tensor squares = torch::zeros({2, 3, 3}, torch::kDouble);
  for (std::int64_t i = 0; i < samples; ++i)
    squares +=
        weights::transform_first_moment(std * random_tensor(std.sizes(), random), changes, core).square();
  const torch::Tensor mapped = weights::transform_second_moment(std.square(), changes, core);
  // The mean of n squares of a normal has the relative deviation sqrt(2 / n).
  EXPECT_LT((squares / samples / mapped - 1).abs().max().item<double>(), 5 * std::sqrt(2.0 / samples));
}

TEST(Moments, NewScalesStartFromZeroAndTheMean) {
  const weights::BondChange change{{"layer", 0, 4, {2, -1}}, {}, {}, {}, {}, {}};
  const torch::Tensor moment = torch::tensor({1.0, 2.0, 3.0, 6.0});
  EXPECT_TRUE(weights::transform_scale_first_moment(moment, change).equal(torch::tensor({3.0, 0.0})));
  EXPECT_TRUE(weights::transform_scale_second_moment(moment, change).equal(torch::tensor({3.0, 3.0})));
  EXPECT_THROW(weights::transform_scale_first_moment(torch::zeros({3}), change), Error);
}

TEST(Slice, AnEmptyBondEmptiesAll) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {3, 5, 2}), 9, torch::kFloat);
  const auto changes = weights::slice(weight, "layer", {{0, 1}, {}, {1}});
  weights::apply(weight, changes);
  EXPECT_TRUE(weight.shape().dead());
  EXPECT_EQ(weight.shape().parameters(), 0);
  EXPECT_EQ(materialize(weight).abs().sum().item<float>(), 0);
  EXPECT_EQ(weights::transform_first_moment(torch::ones({4, 1, 3}).view({1, 4, 3}), changes, 0).sizes(),
            (List{1, 4, 0}));
  EXPECT_EQ(weights::transform_second_moment(torch::ones({3, 3, 5}), changes, 1).sizes(), (List{0, 3, 0}));
  EXPECT_EQ(weights::transform_scale_second_moment(torch::ones({3}), changes[0]).sizes(), (List{0}));
  // A dead weight can be told so again.
  weights::apply(weight, weights::slice(weight, "layer", {{}, {}, {}}));
  EXPECT_TRUE(weight.shape().dead());
}

TEST(Slice, BadIndicesAreRefused) {
  const auto weight = random_weight(format::tt({4, 3}, {2, 5}, {3, 5, 2}), 10);
  const std::vector<std::vector<List>> bad = {
      {{0}, {0}}, {{0}, {0}, {2}}, {{0}, {1, 1}, {0}}, {{1, 0}, {0}, {0}}, {{-1}, {0}, {0}}};
  for (const auto& kept : bad) EXPECT_THROW(weights::slice(weight, "layer", kept), Error);
  EXPECT_THROW(weights::transform_core(torch::zeros({2, 3, 4}), {}, torch::zeros({3, 2})), Error);
}

TEST(Replace, ParametersKeepTheirIdentityAndBothCountersRise) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {3, 5, 2}), 11);
  const auto cores = weight.cores();
  const auto geometry = weight.geometry_version(), value = weight.value_version();
  weights::apply(weight, weights::slice(weight, "layer", {{0}, {1, 3}, {0, 1}}));
  EXPECT_GT(weight.geometry_version(), geometry);
  EXPECT_GT(weight.value_version(), value);
  for (std::size_t k = 0; k < cores.size(); ++k) EXPECT_TRUE(cores[k].is_same(weight.cores()[k]));
  EXPECT_EQ(cores[1].sizes(), (List{1, 3, 2}));
}

TEST(Replace, RefusedBetweenForwardAndBackward) {
  auto weight = random_weight(format::tt({4}, {5}, {3}), 12);
  const auto changes = weights::slice(weight, "layer", {{0, 2}});
  weight.begin_use();
  weight.begin_use();
  EXPECT_THROW(weights::apply(weight, changes), Error);
  weight.end_use();
  EXPECT_THROW(weights::apply(weight, changes), Error);
  EXPECT_EQ(weight.shape().rank(0), 3);
  weight.end_use();
  weights::apply(weight, changes);
  EXPECT_EQ(weight.shape().rank(0), 2);
}

TEST(Replace, WrongSizesAreRefusedAndNothingChanges) {
  auto weight = random_weight(format::tt({4, 3}, {5}, {3, 2}), 13);
  const torch::Tensor before = materialize(weight).detach();
  const auto zeros = [](List sizes) { return torch::zeros(sizes, torch::kDouble); };
  EXPECT_THROW(weight.replace({zeros({1, 4, 2}), zeros({2, 3, 1})}, {zeros({2}), zeros({1})}), Error);
  EXPECT_THROW(
      weight.replace({zeros({1, 4, 2}), zeros({3, 3, 1}), zeros({1, 5, 1})}, {zeros({2}), zeros({1})}),
      Error);
  EXPECT_THROW(
      weight.replace({zeros({1, 4, 0}), zeros({0, 3, 1}), zeros({1, 5, 1})}, {zeros({0}), zeros({1})}),
      Error);
  EXPECT_TRUE(materialize(weight).equal(before));
}

// The loss of the step before is often still alive at the next forward; its graph keeps the gradient
// accumulators of the old sizes.
TEST(Replace, TheNextBackwardWorksWhileAnOldLossIsAlive) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {3, 5, 2}), 14);
  const torch::Tensor old_loss = materialize(weight).sum();
  old_loss.backward();
  weights::apply(weight, weights::slice(weight, "layer", {{0}, {1, 3}, {0, 1}}));
  EXPECT_FALSE(weight.cores()[0].grad().defined());
  materialize(weight).sum().backward();
  for (const auto& core : weight.cores()) EXPECT_EQ(core.grad().sizes(), core.sizes());
}
