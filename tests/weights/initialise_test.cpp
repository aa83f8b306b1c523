#include "weight_cases.h"

#include <comera/base/error.h>
#include <comera/weights/initialise.h>
#include <comera/weights/norms.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace comera;
using namespace comera::test;
using weights::materialize;

class Initialise : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Initialise, testing::ValuesIn(shape_cases()), name_of_index);

namespace {

double largest_singular_value(const torch::Tensor& w) {
  return torch::linalg_svdvals(w.detach())[0].item<double>();
}
double mean_square(const torch::Tensor& w) { return w.detach().square().mean().item<double>(); }

}  // namespace

TEST_P(Initialise, NormsAreThoseOfTheMatrixInUse) {
  const auto weight = random_weight(GetParam(), 1);
  const torch::Tensor w = materialize(weight).detach();
  EXPECT_NEAR(weights::frobenius_norm(weight) / w.norm().item<double>(), 1, 1e-12);
  if (GetParam().kind == format::Kind::tt) {
    EXPECT_NEAR(weights::spectral_norm(weight) / largest_singular_value(w), 1, 1e-12);
  }
}

TEST_P(Initialise, SpectralNormIsExact) {
  if (GetParam().kind != format::Kind::tt) {
    EXPECT_THROW(weights::initialise_spectral(weights::TensorTrain(GetParam()), 1), Error);
    return;
  }
  const double dense = 1 + std::sqrt(static_cast<double>(GetParam().cols) / GetParam().rows);
  for (const double gain : {1.0, 0.5}) {
    const weights::TensorTrain weight(GetParam(), torch::kDouble), single(GetParam());
    weights::initialise_spectral(weight, 2, gain);
    weights::initialise_spectral(single, 2, gain);
    EXPECT_NEAR(largest_singular_value(materialize(weight)), gain * dense, 1e-12);
    EXPECT_NEAR(largest_singular_value(materialize(single)), gain * dense, 1e-5);
  }
}

TEST_P(Initialise, MeanSquareIsExact) {
  for (const double std : {0.02, 1.5}) {
    const weights::TensorTrain weight(GetParam(), torch::kDouble), single(GetParam());
    weights::initialise_std(weight, 3, std);
    weights::initialise_std(single, 3, std);
    EXPECT_NEAR(mean_square(materialize(weight)) / (std * std), 1, 1e-12);
    EXPECT_NEAR(mean_square(materialize(single)) / (std * std), 1, 1e-5);
  }
}

TEST_P(Initialise, TheKeyDecidesEveryValue) {
  const weights::TensorTrain a(GetParam(), torch::kDouble), b(GetParam(), torch::kDouble),
      c(GetParam(), torch::kDouble);
  const auto version = a.value_version();
  weights::initialise_std(a, 4, 1);
  weights::initialise_std(b, 4, 1);
  weights::initialise_std(c, 5, 1);
  EXPECT_GT(a.value_version(), version);
  for (std::int64_t k = 0; k < GetParam().order(); ++k) {
    EXPECT_TRUE(a.cores()[k].equal(b.cores()[k]));
    EXPECT_FALSE(a.cores()[k].equal(c.cores()[k]));
  }
  // Pinned to the project's own generator: the proportions of the first core are its first numbers.
  RandomStream random(4);
  const torch::Tensor first = a.cores()[0].flatten(), numbers = random_tensor(first.sizes(), random);
  EXPECT_LT(relative_error(first / first.norm(), numbers / numbers.norm()), 1e-12);
  for (const auto& scale : a.scales()) EXPECT_TRUE(scale.equal(torch::ones_like(scale)));
}

TEST(InitialiseEdges, PublishedRuleHasTheVarianceInExpectation) {
  const Shape shape = format::tt({6, 5}, {5, 6}, {4});
  double mean = 0;
  const int draws = 200;
  for (int draw = 0; draw < draws; ++draw) {
    const weights::TensorTrain weight(shape, torch::kDouble);
    weights::initialise_published(weight, draw, 0.1);
    mean += mean_square(materialize(weight)) / draws;
  }
  EXPECT_NEAR(mean / 0.01, 1, 0.1);
  const weights::TensorTrain large(format::tt({50, 50}, {50, 50}, {20}), torch::kDouble);
  weights::initialise_published(large, 1, 0.1);
  const double std = std::pow(0.01 / 8000, 1.0 / 8);
  for (const auto& core : large.cores()) EXPECT_NEAR(core.std().item<double>() / std, 1, 0.1);
}

TEST(InitialiseEdges, ZeroLastCore) {
  const weights::TensorTrain weight(format::tt({4, 3}, {3, 4}, {3}));
  weights::initialise_spectral(weight, 1);
  weights::zero_last_core(weight);
  materialize(weight).sum().backward();
  EXPECT_EQ(materialize(weight).abs().sum().item<float>(), 0);
  EXPECT_GT(weight.cores().back().grad().abs().sum().item<float>(), 0);
}

TEST(InitialiseEdges, DeadWeightsStayAndBadSizesAreRefused) {
  const weights::TensorTrain dead(format::tt({4, 3}, {3, 4}, {0}));
  weights::initialise_spectral(dead, 1);
  weights::initialise_std(dead, 1, 0.1);
  weights::initialise_published(dead, 1, 0.1);
  weights::zero_last_core(dead);
  EXPECT_EQ(weights::frobenius_norm(dead), 0);
  EXPECT_EQ(weights::spectral_norm(dead), 0);
  const weights::TensorTrain weight(format::tt({4, 3}, {3, 4}, {3}));
  EXPECT_THROW(weights::initialise_spectral(weight, 1, 0), Error);
  EXPECT_THROW(weights::initialise_std(weight, 1, -1), Error);
  EXPECT_THROW(weights::initialise_published(weight, 1, 0), Error);
}

// The table of the reference configuration and a padded one of 2^40 rows: nothing of their size is built.
TEST(InitialiseEdges, LargeTables) {
  const weights::TensorTrain table(format::ttm(30522, {16, 20, 10, 10}, {4, 4, 8, 6}, {32}));
  weights::initialise_std(table, 1, 0.02);
  EXPECT_NEAR(weights::frobenius_norm(table) / (0.02 * std::sqrt(30522.0 * 768)), 1, 1e-6);
  const std::int64_t rows = (std::int64_t{1} << 40) - 12345;
  const weights::TensorTrain huge(format::ttm(rows, {1024, 1024, 1024, 1024}, {2, 2, 2, 2}, {4}));
  weights::initialise_std(huge, 1, 0.02);
  EXPECT_NEAR(weights::frobenius_norm(huge) / (0.02 * std::sqrt(static_cast<double>(rows) * 16)), 1, 1e-6);
}
