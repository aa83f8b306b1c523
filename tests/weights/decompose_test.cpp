#include "weight_cases.h"

#include <comera/base/error.h>
#include <comera/weights/decompose.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;

namespace {

// W entry by entry from the definition, for what materialize() must equal.
double entry(const Shape& shape, const std::vector<torch::Tensor>& folded, std::int64_t row,
             std::int64_t col) {
  const auto digits_of = [](std::int64_t index, const List& digits) {
    List result(digits.size());
    for (std::size_t i = digits.size(); i-- > 0; index /= digits[i]) result[i] = index % digits[i];
    return result;
  };
  const List m = digits_of(row, shape.row_digits), n = digits_of(col, shape.col_digits);
  torch::Tensor product = torch::ones({1, 1}, torch::kDouble);
  for (std::int64_t k = 0; k < shape.order(); ++k) {
    const torch::Tensor core = folded[k].detach();
    if (shape.kind == format::Kind::ttm)
      product = product.matmul(core.select(1, m[k]).select(1, n[k]));
    else
      product = product.matmul(core.select(1, k < shape.split() ? m[k] : n[k - shape.split()]));
  }
  return product.item<double>();
}

// The bound of the true error: nothing else than rounding may come on top of it.
void expect_within_bound(const torch::Tensor& w, const weights::Decomposition& result) {
  const torch::Tensor rebuilt = weights::materialize(
      result.shape, result.cores, weights::TensorTrain(result.shape, torch::kDouble).scales());
  const double error = (rebuilt - w).norm().item<double>(), norm = w.norm().item<double>();
  EXPECT_LE(error, result.error_bound + 1e-12 * norm);
}

}  // namespace

class Decompose : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Decompose, testing::ValuesIn(shape_cases()), name_of_index);

TEST_P(Decompose, MaterializeIsTheDefinition) {
  const auto weight = random_weight(GetParam(), 1);
  const torch::Tensor w = weights::materialize(weight);
  const auto folded = weights::fold_scales(weight.cores(), weight.scales());
  ASSERT_EQ(w.sizes(), (std::vector<std::int64_t>{GetParam().rows, GetParam().cols}));
  RandomStream random(2);
  for (int sample = 0; sample < 20; ++sample) {
    const std::int64_t row = sample == 0 ? GetParam().rows - 1 : random.below(GetParam().rows);
    const std::int64_t col = sample == 0 ? GetParam().cols - 1 : random.below(GetParam().cols);
    EXPECT_NEAR(w[row][col].item<double>(), entry(GetParam(), folded, row, col),
                1e-10 * w.abs().max().item<double>());
  }
}

TEST_P(Decompose, GradientsReachEveryCoreAndScale) {
  const auto weight = random_weight(GetParam(), 3);
  weights::materialize(weight).square().sum().backward();
  for (const auto& core : weight.cores()) {
    ASSERT_TRUE(core.grad().defined());
    // W is linear in each core, so <core, gradient of ||W||^2> = 2 ||W||^2.
    EXPECT_NEAR((core * core.grad()).sum().item<double>() /
                    weights::materialize(weight).square().sum().item<double>(),
                2, 1e-10);
  }
  for (const auto& scale : weight.scales()) EXPECT_TRUE(scale.grad().defined());
}

TEST_P(Decompose, AWeightOfTheseRanksIsFoundExactly) {
  const auto weight = random_weight(GetParam(), 4);
  const torch::Tensor w = weights::materialize(weight).detach();
  // Padding becomes zero, which may raise the ranks: allow any.
  Shape limits = GetParam();
  for (std::int64_t k = 0; k < limits.bonds(); ++k) limits.ranks[k + 1] = limits.admissible_rank(k);
  const auto result = weights::decompose(w, limits);
  expect_within_bound(w, result);
  EXPECT_LE(result.error_bound, 1e-12 * w.norm().item<double>());
  EXPECT_NO_THROW(format::validate(result.shape, "test"));
  for (std::int64_t k = 0; k < limits.order(); ++k)
    EXPECT_EQ(result.cores[k].sizes(), result.shape.core_shape(k)) << k;
  std::int64_t entries = 1;
  for (std::int64_t k = 0; k < limits.order(); ++k) entries *= limits.mode(k);
  for (std::int64_t k = 0; entries == w.numel() && k < limits.bonds(); ++k)
    EXPECT_LE(result.shape.rank(k), GetParam().rank(k));
}

TEST_P(Decompose, ErrorOfLowerRanksIsWithinTheBound) {
  RandomStream random(5);
  const torch::Tensor w = random_tensor({GetParam().rows, GetParam().cols}, random);
  for (const std::int64_t rank : {1, 2, 3}) {
    Shape limits = GetParam();
    for (std::int64_t k = 0; k < limits.bonds(); ++k)
      limits.ranks[k + 1] = std::min(rank, limits.admissible_rank(k));
    const auto result = weights::decompose(w, limits);
    expect_within_bound(w, result);
    // The bound is not a loose one: it is at most the norm times the root of the number of bonds.
    EXPECT_LE(result.error_bound,
              w.norm().item<double>() * std::sqrt(std::max<double>(1, limits.bonds())) + 1e-12);
    for (std::int64_t k = 0; k < limits.bonds(); ++k) EXPECT_LE(result.shape.rank(k), limits.rank(k));
  }
}

TEST_P(Decompose, ToleranceIsKept) {
  RandomStream random(6);
  const torch::Tensor w = random_tensor({GetParam().rows, GetParam().cols}, random);
  Shape limits = GetParam();
  for (std::int64_t k = 0; k < limits.bonds(); ++k) limits.ranks[k + 1] = limits.admissible_rank(k);
  const std::int64_t full = limits.parameters();
  for (const double tolerance : {0.1, 0.5, 0.9}) {
    const auto result = weights::decompose(w, limits, tolerance);
    expect_within_bound(w, result);
    EXPECT_LE(result.error_bound, tolerance * w.norm().item<double>());
    EXPECT_LE(result.shape.parameters(), full);
  }
}

TEST(DecomposeEdges, OneBondGivesTheSingularValuesExactly) {
  RandomStream random(7);
  const torch::Tensor w = random_tensor({9, 6}, random), sigma = torch::linalg_svdvals(w);
  const auto result = weights::decompose(w, format::tt({9}, {6}, {4}));
  EXPECT_NEAR(result.error_bound, sigma.slice(0, 4).norm().item<double>(), 1e-12);
  // Evenly split: both cores have the square roots as their column and row norms.
  const torch::Tensor half = sigma.slice(0, 0, 4).sqrt();
  EXPECT_LT((result.cores[0].norm(2, {0, 1}) - half).abs().max().item<double>(), 1e-12);
  EXPECT_LT((result.cores[1].norm(2, {1, 2}) - half).abs().max().item<double>(), 1e-12);
}

TEST(DecomposeEdges, TrueRanksAreFoundAndNoMore) {
  const auto weight = random_weight(format::tt({4, 6}, {6, 4}, {3, 5, 2}), 8);
  const auto result =
      weights::decompose(weights::materialize(weight), format::tt({4, 6}, {6, 4}, {4, 24, 4}));
  EXPECT_EQ(result.shape.ranks, weight.shape().ranks);
}

TEST(DecomposeEdges, ZeroMatrixDeadLimitsAndBadInput) {
  const Shape limits = format::tt({4, 3}, {2, 5}, {3});
  const auto zero = weights::decompose(torch::zeros({12, 10}), limits);
  EXPECT_EQ(zero.shape.ranks, (List{1, 1, 1, 1, 1}));
  for (const auto& core : zero.cores) EXPECT_TRUE(core.isfinite().all().item<bool>());
  EXPECT_EQ(zero.error_bound, 0);

  const auto dead = weights::decompose(torch::ones({12, 10}), format::tt({4, 3}, {2, 5}, {0}));
  EXPECT_TRUE(dead.shape.dead());
  EXPECT_NEAR(dead.error_bound, std::sqrt(120.0), 1e-12);
  expect_within_bound(torch::ones({12, 10}, torch::kDouble), dead);

  EXPECT_THROW(weights::decompose(torch::zeros({12, 11}), limits), Error);
  EXPECT_THROW(weights::decompose(torch::zeros({120}), limits), Error);
  EXPECT_THROW(weights::decompose(torch::full({12, 10}, NAN), limits), Error);
  EXPECT_THROW(weights::decompose(torch::zeros({12, 10}), limits, -0.1), Error);
}

TEST(Materialize, ADeadWeightIsZero) {
  const weights::TensorTrain weight(format::tt({4, 3}, {2, 5}, {0}));
  const torch::Tensor w = weights::materialize(weight);
  EXPECT_EQ(w.sizes(), (std::vector<std::int64_t>{12, 10}));
  EXPECT_EQ(w.abs().sum().item<float>(), 0);
}
