#include "guarded.h"

#include <comera/kernels/attention.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace comera;
using namespace comera::kernels;

namespace {

AttentionBlock make_block(std::int64_t rows, std::int64_t width, bool causal, double p) {
  AttentionBlock block;
  block.rows = rows;
  block.width = width;
  block.stride = (width + 15) / 16 * 16;
  block.first_query = causal ? width - rows : 3;
  block.causal = causal;
  block.sample = 77;
  block.heads = 3;
  block.head = 1;
  block.rule = keep_rule(p, 0xABCDEF0123456789ull);
  return block;
}

bool keeps_key(const AttentionBlock& block, std::int64_t row, std::int64_t key) {
  const auto position = static_cast<std::uint32_t>((block.first_query + row) * block.heads + block.head);
  return keeps(block.rule, block.sample, position, key);
}

template <class T>
void check_block(const AttentionBlock& block) {
  constexpr double kTolerance = sizeof(T) == 4 ? 2e-6 : 1e-14;
  const auto& kernel = attention_kernels<T>();
  std::mt19937 random(static_cast<unsigned>(block.width));
  std::normal_distribution<double> normal(0, 3);
  const std::int64_t count = block.rows * block.stride;
  // Scratch between the rows starts as NaN: it must never reach a result.
  Guarded<T> scores(count, std::numeric_limits<T>::quiet_NaN()),
      gradients(count, std::numeric_limits<T>::quiet_NaN());
  std::vector<T> log_sums(block.rows), factors(block.rows), dots(block.rows);
  for (std::int64_t r = 0; r < block.rows; ++r)
    for (std::int64_t c = 0; c < block.width; ++c) {
      scores.begin()[r * block.stride + c] = static_cast<T>(normal(random));
      gradients.begin()[r * block.stride + c] = static_cast<T>(normal(random));
    }
  Guarded<T> recomputed = scores;
  const std::vector<double> s(scores.begin(), scores.begin() + count),
      g(gradients.begin(), gradients.begin() + count);

  kernel.softmax_dropout(block, scores.begin(), log_sums.data(), factors.data());
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const double* row = s.data() + r * block.stride;
    const std::int64_t visible = block.visible(r);
    double sum = 0;
    for (std::int64_t c = 0; c < visible; ++c) sum += std::exp(row[c]);
    ASSERT_NEAR(log_sums[r], std::log(sum), 10 * kTolerance);
    double dot = 0;
    for (std::int64_t c = 0; c < block.width; ++c) {
      const bool kept = c < visible && keeps_key(block, r, c);
      const double expected = kept ? std::exp(row[c]) / sum * block.rule.scale() : 0;
      ASSERT_NEAR(scores.begin()[r * block.stride + c] * factors[r], expected, kTolerance) << r << " " << c;
      dot += expected * g[r * block.stride + c];
    }
    dots[r] = static_cast<T>(dot);
  }

  kernel.softmax_dropout_backward(block, recomputed.begin(), gradients.begin(), log_sums.data(), dots.data());
  for (std::int64_t r = 0; r < block.rows; ++r)
    for (std::int64_t c = 0; c < block.width; ++c) {
      const std::int64_t i = r * block.stride + c;
      const bool visible = c < block.visible(r), kept = visible && keeps_key(block, r, c);
      const double probability = visible ? std::exp(s[i] - log_sums[r]) : 0;
      const double scaled = kept ? block.rule.scale() : 0;
      ASSERT_NEAR(recomputed.begin()[i], probability * scaled, 10 * kTolerance) << r << " " << c;
      ASSERT_NEAR(gradients.begin()[i], probability * (scaled * g[i] - dots[r]), 50 * kTolerance)
          << r << " " << c;
    }
  EXPECT_TRUE(scores.intact() && recomputed.intact() && gradients.intact());
}

}  // namespace

TEST(AttentionKernels, SoftmaxAndItsBackwardOverShapes) {
  for (const std::int64_t width : {1, 7, 16, 31, 128, 129, 300})
    for (const bool causal : {false, true})
      for (const double p : {0.0, 0.3}) {
        const AttentionBlock block = make_block(std::min<std::int64_t>(width, 9), width, causal, p);
        check_block<float>(block);
        check_block<double>(block);
      }
}

TEST(AttentionKernels, LargeScoresDoNotOverflowAndNaNIsSeen) {
  const AttentionBlock block = make_block(2, 5, false, 0);
  std::vector<float> scores(2 * block.stride, 3e38f), log_sums(2), factors(2);
  scores[block.stride + 2] = std::numeric_limits<float>::quiet_NaN();
  attention_kernels<float>().softmax_dropout(block, scores.data(), log_sums.data(), factors.data());
  EXPECT_NEAR(scores[0] * factors[0], 0.2, 1e-6);
  EXPECT_TRUE(std::isnan(scores[block.stride] * factors[1]));
}

TEST(AttentionKernels, RowsOfAnyWidth) {
  const auto& kernel = attention_kernels<float>();
  for (const std::int64_t columns : {1, 7, 16, 37, 64}) {
    const std::int64_t stride = columns + 5;
    Guarded<float> x(3 * stride, 2);
    const std::vector<float> factors = {1, 2, 3};
    kernel.scale_rows(3, columns, factors.data(), x.begin(), stride);
    std::vector<float> dots(3);
    kernel.row_dots(3, columns, x.begin(), stride, x.begin(), stride, dots.data());
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(dots[r], columns * 4 * factors[r] * factors[r]);
      for (std::int64_t c = columns; c < stride; ++c) EXPECT_EQ(x.begin()[r * stride + c], 2);
    }
    EXPECT_TRUE(x.intact());
  }
}
