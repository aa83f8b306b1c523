#include "weight_cases.h"

#include <comera/base/error.h>
#include <comera/weights/rounding.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace comera;
using namespace comera::test;
using weights::materialize;

namespace {

// W with its padding, one dimension a core.
torch::Tensor full_tensor(const weights::TensorTrain& weight) {
  const Shape& shape = weight.shape();
  torch::Tensor full = torch::ones({1, 1}, torch::kDouble);
  for (const auto& core : weights::fold_scales(weight.cores(), weight.scales()))
    full = full.matmul(core.detach().reshape({core.size(0), -1})).reshape({-1, core.size(-1)});
  List modes;
  for (std::int64_t k = 0; k < shape.order(); ++k) modes.push_back(shape.mode(k));
  return full.reshape(modes);
}

torch::Tensor unfolded(const torch::Tensor& full, std::int64_t bond) {
  std::int64_t rows = 1;
  for (std::int64_t k = 0; k <= bond; ++k) rows *= full.size(k);
  return full.reshape({rows, -1});
}

double bound(const std::vector<torch::Tensor>& sigma, const List& ranks) {
  double squares = 0;
  for (std::size_t k = 0; k < ranks.size(); ++k)
    squares += sigma[k].slice(0, ranks[k]).square().sum().item<double>();
  return std::sqrt(squares);
}

List half_ranks(const Shape& shape) {
  List ranks;
  for (std::int64_t k = 0; k < shape.bonds(); ++k) ranks.push_back((shape.rank(k) + 1) / 2);
  return ranks;
}

double root_mean_square(const torch::Tensor& core) { return core.square().mean().sqrt().item<double>(); }

}  // namespace

class Rounding : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Rounding, testing::ValuesIn(shape_cases()), name_of_index);

TEST_P(Rounding, BondSingularValuesAreThoseOfTheUnfoldings) {
  const auto weight = random_weight(GetParam(), 1);
  const auto sigma = weights::bond_singular_values(weight);
  const torch::Tensor full = full_tensor(weight);
  ASSERT_EQ(sigma.size(), GetParam().bonds());
  for (std::int64_t k = 0; k < GetParam().bonds(); ++k) {
    ASSERT_EQ(sigma[k].sizes(), List{GetParam().rank(k)});
    torch::Tensor wanted = torch::linalg_svdvals(unfolded(full, k));
    const std::int64_t common = std::min(wanted.size(0), sigma[k].size(0));
    EXPECT_LT(relative_error(sigma[k].narrow(0, 0, common), wanted.narrow(0, 0, common)), 1e-12);
    EXPECT_LT(sigma[k].slice(0, common).abs().sum().item<double>(), 1e-12 * full.norm().item<double>());
  }
}

TEST_P(Rounding, ErrorIsWithinTheBoundAndTheRanksAreTheOnesAskedFor) {
  auto weight = random_weight(GetParam(), 2);
  const auto sigma = weights::bond_singular_values(weight);
  const torch::Tensor before = full_tensor(weight);
  const List ranks = half_ranks(GetParam());
  const auto changes = weights::round_to_ranks(weight, "layer", ranks);
  std::vector<torch::Tensor> old_scales;
  for (const auto& scale : weight.scales()) old_scales.push_back(scale.detach().clone());
  weights::apply(weight, changes);
  for (std::int64_t k = 0; k < GetParam().bonds(); ++k) {
    EXPECT_EQ(weight.shape().rank(k), ranks[k]);
    const bool cut = ranks[k] < GetParam().rank(k);
    EXPECT_EQ(changes[k].change.from[0], cut ? -1 : 0);
    if (cut) {
      EXPECT_TRUE(weight.scales()[k].equal(torch::ones({ranks[k]}, torch::kDouble)));
    } else {
      EXPECT_TRUE(weight.scales()[k].equal(old_scales[k]));
    }
  }
  const double error = (full_tensor(weight) - before).norm().item<double>();
  EXPECT_LE(error, bound(sigma, ranks) + 1e-12 * before.norm().item<double>());
}

TEST_P(Rounding, ToOneRankAtATimeIsOptimal) {
  for (std::int64_t bond = 0; bond < GetParam().bonds(); ++bond) {
    auto weight = random_weight(GetParam(), 3);
    const torch::Tensor before = full_tensor(weight), sigma = torch::linalg_svdvals(unfolded(before, bond));
    List ranks(GetParam().ranks.begin() + 1, GetParam().ranks.end() - 1);
    ranks[bond] = (ranks[bond] + 1) / 2;
    weights::apply(weight, weights::round_to_ranks(weight, "layer", ranks));
    const double optimal = sigma.slice(0, ranks[bond]).norm().item<double>();
    EXPECT_NEAR((full_tensor(weight) - before).norm().item<double>(), optimal,
                1e-11 * before.norm().item<double>());
  }
}

TEST_P(Rounding, CoresKeepTheProportionsOfTheirNorms) {
  auto weight = random_weight(GetParam(), 4);
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t k = 0; k < weight.cores().size(); ++k) weight.cores()[k].mul_(std::pow(3.0, k % 3));
  }
  bool all_cut = true;
  for (std::int64_t k = 0; k < GetParam().bonds(); ++k) all_cut = all_cut && GetParam().rank(k) > 1;
  if (!all_cut) return;
  std::vector<double> before;
  for (const auto& core : weight.cores()) before.push_back(root_mean_square(core));
  weights::apply(weight, weights::round_to_ranks(weight, "layer", half_ranks(GetParam())));
  const auto cores = weight.cores();
  for (std::size_t k = 1; k < cores.size(); ++k)
    EXPECT_NEAR(root_mean_square(cores[k]) / root_mean_square(cores[0]) * before[0] / before[k], 1, 1e-10);
}

TEST_P(Rounding, ToATolerance) {
  for (const double tolerance : {0.0, 1e-12, 0.05, 0.3, 0.8}) {
    auto weight = random_weight(GetParam(), 5);
    const torch::Tensor before = materialize(weight).detach();
    const List ranks = weights::ranks_for_tolerance(weight, tolerance);
    for (std::size_t k = 1; k < ranks.size(); ++k) EXPECT_LE(ranks[k], ranks[k - 1] * GetParam().mode(k));
    weights::apply(weight, weights::round_to_ranks(weight, "layer", ranks));
    EXPECT_LE(relative_error(materialize(weight), before), tolerance + 1e-12);
  }
}

TEST(RoundingEdges, RanksThatAreNotUsedAreFound) {
  // Twice the ranks: the same weight beside a rotated copy of itself.
  const Shape small = format::tt({3, 4}, {4, 3}, {2, 3, 2}), doubled = format::tt({3, 4}, {4, 3}, {4, 6, 4});
  const auto a = random_weight(small, 6);
  weights::TensorTrain weight(doubled, torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    RandomStream random(7);
    for (std::size_t k = 0; k < 4; ++k) {
      const torch::Tensor core = a.cores()[k], whole = weight.cores()[k];
      const std::int64_t r = core.size(0), s = core.size(2);
      whole.narrow(0, 0, r).narrow(2, 0, s).copy_(core);
      whole.narrow(0, whole.size(0) - r, r).narrow(2, whole.size(2) - s, s).add_(k == 0 ? 2 * core : core);
    }
  }
  const List ranks = weights::ranks_for_tolerance(weight, 1e-10);
  EXPECT_EQ(ranks, (List{2, 3, 2}));
  const torch::Tensor before = materialize(weight).detach();
  weights::apply(weight, weights::round_to_ranks(weight, "layer", ranks));
  EXPECT_LE(relative_error(materialize(weight), before), 1e-12);
}

// Gram matrices would resolve singular values only to 1e-8 of the largest.
TEST(RoundingEdges, SmallSingularValuesAreResolved) {
  RandomStream random(8);
  const auto orthonormal = [&](std::int64_t rows) {
    return std::get<0>(torch::linalg_qr(random_tensor({rows, 3}, random)));
  };
  const torch::Tensor values = torch::tensor({1.0, 1e-6, 1e-12}, torch::kDouble);
  weights::TensorTrain weight(format::tt({12}, {10}, {3}), torch::kDouble);
  weight.replace({orthonormal(12).unsqueeze(0), orthonormal(10).t().unsqueeze(2)}, {values});
  const torch::Tensor sigma = weights::bond_singular_values(weight)[0];
  EXPECT_LT((sigma / values - 1).abs().max().item<double>(), 1e-2);
}

TEST(RoundingEdges, SingularValuesAreSplitEvenly) {
  auto weight = random_weight(format::tt({9}, {7}, {5}), 9);
  weights::apply(weight, weights::round_to_ranks(weight, "layer", {3}));
  const torch::Tensor left = weight.cores()[0].norm(2, {0, 1}), right = weight.cores()[1].norm(2, {1, 2});
  const torch::Tensor sigma = torch::linalg_svdvals(materialize(weight)).narrow(0, 0, 3);
  EXPECT_LT(relative_error(left * right, sigma), 1e-12);
  EXPECT_LT(relative_error(left / right, (left[0] / right[0]).expand(3)), 1e-12);
}

// W would have 2^40 entries and more: only the cores are ever touched.
TEST(RoundingEdges, TheFullTensorIsNeverBuilt) {
  const Shape table = format::ttm(std::int64_t{1} << 40, {1024, 1024, 1024, 1024}, {2, 2, 2, 2}, {4, 6, 4});
  for (const Shape& shape : {format::tt({1024, 1024}, {1024, 1024}, {6, 8, 6}), table}) {
    auto weight = random_weight(shape, 10, torch::kFloat);
    const auto sigma = weights::bond_singular_values(weight);
    const List ranks = weights::ranks_for_tolerance(weight, 0.7);
    const double norm = sigma[0].norm().item<double>();
    EXPECT_LE(bound(sigma, ranks), 0.7 * norm * (1 + 1e-6));
    const auto changes = weights::round_to_ranks(weight, "layer", ranks);
    weights::apply(weight, changes);
    const auto rounded = weights::bond_singular_values(weight);
    EXPECT_LE(rounded[0].norm().item<double>(), norm * (1 + 1e-6));
    EXPECT_GE(rounded[0].norm().item<double>(), norm * std::sqrt(1 - 0.7 * 0.7) * (1 - 1e-6));
  }
}

TEST(RoundingEdges, AZeroWeightIsCutBySelectionAndStaysTrainable) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {4, 6, 4}), 11);
  {
    const torch::NoGradGuard no_grad;
    weight.cores().back().zero_();
  }
  weights::apply(weight, weights::round_to_ranks(weight, "layer", {2, 3, 2}));
  EXPECT_EQ(weight.shape().ranks, (List{1, 2, 3, 2, 1}));
  materialize(weight).sum().backward();
  EXPECT_EQ(materialize(weight).abs().sum().item<double>(), 0);
  EXPECT_GT(weight.cores().back().grad().abs().sum().item<double>(), 0);
}

TEST(RoundingEdges, ValuesStayFiniteWhenKeptRanksCarryNothing) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {4, 6, 4}), 12);
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor scale : weight.scales()) scale.narrow(0, 1, scale.size(0) - 1).zero_();
  }
  const torch::Tensor before = materialize(weight).detach();
  const auto changes = weights::round_to_ranks(weight, "layer", {3, 4, 3});
  weights::apply(weight, changes);
  EXPECT_LE(relative_error(materialize(weight), before), 1e-12);
  for (const auto& core : weight.cores()) EXPECT_TRUE(core.isfinite().all().item<bool>());
  for (const auto& change : changes) {
    EXPECT_TRUE(change.gradient_left.isfinite().all().item<bool>());
    EXPECT_TRUE(change.gradient_right.isfinite().all().item<bool>());
  }
}

TEST(RoundingEdges, RankZeroKillsAndBadRanksAreRefused) {
  auto weight = random_weight(format::tt({4, 3}, {2, 5}, {4, 6, 4}), 13);
  for (const List& bad : {List{4, 6}, List{5, 6, 4}, List{4, -1, 4}})
    EXPECT_THROW(weights::round_to_ranks(weight, "layer", bad), Error);
  EXPECT_THROW(weights::ranks_for_tolerance(weight, -0.1), Error);
  weights::apply(weight, weights::round_to_ranks(weight, "layer", {4, 0, 4}));
  EXPECT_TRUE(weight.shape().dead());
  EXPECT_EQ(weights::bond_singular_values(weight).size(), 3);
  EXPECT_EQ(weights::ranks_for_tolerance(weight, 0.1), (List{0, 0, 0}));
  weights::apply(weight, weights::round_to_ranks(weight, "layer", {0, 0, 0}));
  EXPECT_TRUE(weight.shape().dead());
}
