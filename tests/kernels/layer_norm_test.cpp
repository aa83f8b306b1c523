#include "guarded.h"

#include <comera/kernels/layer_norm.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace comera::kernels;

namespace {

constexpr double kEpsilon = 1e-3;

template <class T>
void expect_definition(std::int64_t count, std::int64_t features) {
  Guarded<T> x(count * features), y(count * features), dy(count * features), dx(count * features);
  Guarded<T> weight(features), bias(features), d_weight(features, T(2)), d_bias(features, T(3));
  for (std::int64_t i = 0; i < count * features; ++i) {
    x.begin()[i] = static_cast<T>(std::sin(3.7 * static_cast<double>(i)) + 5);
    dy.begin()[i] = static_cast<T>(std::cos(2.3 * static_cast<double>(i)));
  }
  for (std::int64_t i = 0; i < features; ++i) {
    weight.begin()[i] = static_cast<T>(0.5 + 0.01 * static_cast<double>(i % 50));
    bias.begin()[i] = static_cast<T>(i % 3);
  }
  layer_norm(LayerNormRows<T>{x.begin(), weight.begin(), bias.begin(), y.begin(), features, kEpsilon}, 0,
             count);
  layer_norm_gradient(
      LayerNormGradientRows<T>{x.begin(), weight.begin(), dy.begin(), dx.begin(), features, kEpsilon}, 0,
      count, d_weight.begin(), d_bias.begin());

  const double tolerance = 200 * std::numeric_limits<T>::epsilon();
  std::vector<double> expected_d_weight(features, 2), expected_d_bias(features, 3);
  for (std::int64_t row = 0; row < count; ++row) {
    const T *xs = x.begin() + row * features, *gs = dy.begin() + row * features;
    double mean = 0, variance = 0, mean_g = 0, mean_gu = 0;
    for (std::int64_t i = 0; i < features; ++i) mean += xs[i] / static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i) variance += (xs[i] - mean) * (xs[i] - mean) / features;
    const double inverse = 1 / std::sqrt(variance + kEpsilon);
    const auto unit = [&](std::int64_t i) { return (xs[i] - mean) * inverse; };
    for (std::int64_t i = 0; i < features; ++i) {
      mean_g += gs[i] * weight.begin()[i] / static_cast<double>(features);
      mean_gu += gs[i] * weight.begin()[i] * unit(i) / static_cast<double>(features);
      expected_d_weight[i] += gs[i] * unit(i);
      expected_d_bias[i] += gs[i];
    }
    for (std::int64_t i = 0; i < features; ++i) {
      ASSERT_NEAR(y.begin()[row * features + i], unit(i) * weight.begin()[i] + bias.begin()[i],
                  5 * tolerance);
      ASSERT_NEAR(dx.begin()[row * features + i],
                  inverse * (gs[i] * weight.begin()[i] - mean_g - unit(i) * mean_gu), 5 * inverse * tolerance)
          << "row " << row << ", feature " << i << " of " << features;
    }
  }
  for (std::int64_t i = 0; i < features; ++i) {
    ASSERT_NEAR(d_weight.begin()[i], expected_d_weight[i], 5 * count * tolerance);
    ASSERT_NEAR(d_bias.begin()[i], expected_d_bias[i], 5 * count * tolerance);
  }
  EXPECT_TRUE(y.intact() && dx.intact() && d_weight.intact() && d_bias.intact());
}

}  // namespace

TEST(LayerNorm, ValuesAndGradientsAreTheDefinition) {
  for (const std::int64_t features : {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 768})
    for (const std::int64_t count : {1, 3}) {
      expect_definition<float>(count, features);
      expect_definition<double>(count, features);
    }
}

TEST(LayerNorm, RangesAndInPlaceGiveTheSame) {
  constexpr std::int64_t kRows = 9, kFeatures = 37;
  std::vector<float> x(kRows * kFeatures), y(x.size()), dx(x.size()), weight(kFeatures, 2),
      bias(kFeatures, 1);
  std::vector<float> whole(2 * kFeatures), parts(2 * kFeatures);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(i));
  std::vector<float> in_place = x, dy = x;
  layer_norm({x.data(), weight.data(), bias.data(), y.data(), kFeatures, kEpsilon}, 0, kRows);
  layer_norm_gradient({x.data(), weight.data(), dy.data(), dx.data(), kFeatures, kEpsilon}, 0, kRows,
                      whole.data(), whole.data() + kFeatures);
  for (const auto& [first, last] : {std::pair{0, 4}, std::pair{4, 9}}) {
    layer_norm_gradient({x.data(), weight.data(), dy.data(), dy.data(), kFeatures, kEpsilon}, first, last,
                        parts.data(), parts.data() + kFeatures);
    layer_norm({in_place.data(), weight.data(), bias.data(), in_place.data(), kFeatures, kEpsilon}, first,
               last);
  }
  EXPECT_EQ(in_place, y);
  EXPECT_EQ(dy, dx);
  EXPECT_EQ(parts, whole);
}

// A row of equal entries has no variance: epsilon alone must keep the result finite.
TEST(LayerNorm, ConstantRows) {
  std::vector<float> x(40, 3e4f), y(40), weight(40, 1), bias(40, 0.5f);
  layer_norm({x.data(), weight.data(), bias.data(), y.data(), 40, 1e-9}, 0, 1);
  for (const float value : y) EXPECT_EQ(value, 0.5f);
}
