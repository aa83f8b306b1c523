#include "guarded.h"

#include <comera/kernels/dropout.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace comera;
using namespace comera::kernels;

namespace {

constexpr std::uint64_t kKey = 0x0123456789ABCDEFull;

/// The keep mask of rows [0, batch * positions) as zeros and ones, made by the kernel.
std::vector<double> mask_of(const KeepRule& rule, const std::vector<std::int64_t>& samples,
                            std::int64_t positions, std::int64_t features) {
  const std::int64_t rows = static_cast<std::int64_t>(samples.size()) * positions;
  std::vector<double> x(rows * features, 1 / rule.scale()), y(x.size());
  dropout({x.data(), nullptr, y.data(), samples.data(), positions, features, rule}, 0, rows);
  for (double& value : y) value = std::round(value);
  return y;
}

template <class T>
void expect_matches_definition(std::int64_t positions, std::int64_t features, bool with_residual) {
  const std::vector<std::int64_t> samples = {5, -1, std::int64_t{1} << 40};
  const KeepRule rule = keep_rule(0.3, kKey);
  const std::int64_t rows = 3 * positions, count = rows * features;
  Guarded<T> x(count), residual(count), y(count);
  for (std::int64_t i = 0; i < count; ++i) {
    x.begin()[i] = T(1) + T(i) / T(count);
    residual.begin()[i] = T(i % 7);
  }
  dropout(DropoutRows<T>{x.begin(), with_residual ? residual.begin() : nullptr, y.begin(), samples.data(),
                         positions, features, rule},
          0, rows);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = i / features;
    const bool keep = keeps(rule, samples[row / positions], row % positions, i % features);
    const double expected =
        (keep ? x.begin()[i] * rule.scale() : 0.0) + (with_residual ? residual.begin()[i] : T(0));
    ASSERT_NEAR(y.begin()[i], expected, 4 * std::numeric_limits<T>::epsilon() * (1 + expected))
        << "entry " << i << " of " << positions << " x " << features;
  }
  EXPECT_TRUE(x.intact() && residual.intact() && y.intact());
}

}  // namespace

TEST(Dropout, MatchesTheScalarDefinition) {
  for (const std::int64_t features : {1, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 129, 200, 768}) {
    for (const bool with_residual : {false, true}) {
      expect_matches_definition<float>(3, features, with_residual);
      expect_matches_definition<double>(3, features, with_residual);
    }
  }
}

TEST(Dropout, RangesOfRowsAndInPlaceGiveTheSame) {
  const std::vector<std::int64_t> samples = {1, 2, 3, 4};
  const std::int64_t positions = 5, features = 131, rows = 20;
  const KeepRule rule = keep_rule(0.5, kKey);
  std::vector<float> x(rows * features, 2), y(x.size());
  dropout({x.data(), nullptr, y.data(), samples.data(), positions, features, rule}, 0, rows);
  const DropoutRows<float> in_place = {x.data(),  nullptr,  x.data(), samples.data(),
                                       positions, features, rule};
  dropout(in_place, 13, 20);
  dropout(in_place, 0, 1);
  dropout(in_place, 1, 13);
  EXPECT_EQ(x, y);
}

TEST(Dropout, AMaskDoesNotDependOnItsNeighbours) {
  const KeepRule rule = keep_rule(0.4, kKey);
  const auto padded = mask_of(rule, {10, 11, 12}, 9, 300);
  // Fewer positions, one sample alone, and fewer features are parts of the same mask.
  const auto alone = mask_of(rule, {11}, 4, 130);
  for (int t = 0; t < 4; ++t)
    for (int f = 0; f < 130; ++f) ASSERT_EQ(alone[t * 130 + f], padded[(9 + t) * 300 + f]) << t << " " << f;
}

TEST(Dropout, DroppedEntriesAreZeroEvenIfTheyWereNotNumbers) {
  const KeepRule rule = keep_rule(0.5, kKey);
  const std::vector<std::int64_t> samples = {3};
  std::vector<float> x(64, std::numeric_limits<float>::quiet_NaN()), y(64);
  dropout({x.data(), nullptr, y.data(), samples.data(), 1, 64, rule}, 0, 1);
  for (int f = 0; f < 64; ++f) EXPECT_EQ(std::isnan(y[f]), keeps(rule, 3, 0, f));
}

TEST(KeepRule, RoundsToOneIn65536AndScalesByTheExactProbability) {
  EXPECT_TRUE(keep_rule(0, 1).keeps_all());
  EXPECT_EQ(keep_rule(0, 1).scale(), 1);
  EXPECT_EQ(keep_rule(0.5, 1).threshold, 32768u);
  EXPECT_EQ(keep_rule(0.1, 1).threshold, 58982u);
  EXPECT_NEAR(keep_rule(0.1, 1).scale(), 1 / 0.9, 1e-5);
  EXPECT_EQ(keep_rule(std::nextafter(1.0, 0.0), 1).threshold, 1u);
}

// Rates within five standard deviations, for the whole mask and for each of the eight half words.
TEST(MaskStatistics, Rate) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const KeepRule rule = keep_rule(p, kKey + 1);
    const auto mask = mask_of(rule, {1, 2, 3, 4}, 256, 256);
    std::vector<double> kept(8);
    for (std::size_t i = 0; i < mask.size(); ++i) kept[i % 128 / 16] += mask[i];
    const double each = mask.size() / 8.0;
    for (const double k : kept) EXPECT_NEAR(k / each, 1 - p, 5 * std::sqrt(p * (1 - p) / each)) << "p " << p;
  }
}

// Entries that differ in one coordinate, or only in the key, agree as often as independent ones do.
TEST(MaskStatistics, NeighboursAreIndependent) {
  const double p = 0.5;
  const std::int64_t positions = 256, features = 256, size = 4 * positions * features;
  const auto mask = mask_of(keep_rule(p, kKey), {1, 2, 3, 4}, positions, features);
  const auto correlation = [&](const std::vector<double>& other, std::int64_t shift) {
    double sum = 0;
    for (std::int64_t i = 0; i + shift < size; ++i) sum += (mask[i] - 1 + p) * (other[i + shift] - 1 + p);
    return sum / (p * (1 - p)) / std::sqrt(static_cast<double>(size - shift));
  };
  for (const std::int64_t shift : {1, 2, 8, 15, 16, 17, 32, 64, 127, 128})
    EXPECT_LT(std::abs(correlation(mask, shift)), 5);
  for (const std::int64_t shift : {1, 2, 64}) EXPECT_LT(std::abs(correlation(mask, shift * features)), 5);
  EXPECT_LT(std::abs(correlation(mask, positions * features)), 5);
  for (const std::uint64_t key : {kKey + 1, kKey ^ (kKey << 63), random_key(1, 2, 3)})
    EXPECT_LT(std::abs(correlation(mask_of(keep_rule(p, key), {1, 2, 3, 4}, positions, features), 0)), 5);
}
