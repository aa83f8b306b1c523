#include <comera/base/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

using namespace comera;

// Known answers published with the algorithm (Random123, philox4x32 with 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, ContinuesFromASavedPosition) {
  RandomStream whole(random_key(1, 2, 3));
  for (int i = 0; i < 7; ++i) whole();
  RandomStream resumed(whole.key(), whole.position());
  for (int i = 0; i < 9; ++i) EXPECT_EQ(whole(), resumed());
}

// Chi-square over 256 buckets: mean 255, standard deviation 22.6; six deviations either way.
TEST(RandomStream, BytesAreUniform) {
  for (const std::uint64_t site : {0, 1, 2, 77}) {
    RandomStream stream(random_key(5, 0, site));
    std::vector<double> counts(256);
    const int draws = 1 << 16;
    for (int i = 0; i < draws; ++i) ++counts[stream() >> 24], ++counts[stream() & 255];
    const double expected = 2.0 * draws / 256;
    double chi = 0;
    for (const double c : counts) chi += (c - expected) * (c - expected) / expected;
    EXPECT_GT(chi, 255 - 6 * 22.6) << "site " << site;
    EXPECT_LT(chi, 255 + 6 * 22.6) << "site " << site;
  }
}

TEST(RandomStream, NeighbouringKeysAreUncorrelated) {
  const int draws = 1 << 15;
  for (const std::uint64_t step : {1, 2, 3, 1000}) {
    RandomStream a(random_key(9, step, 4)), b(random_key(9, step + 1, 4)), c(random_key(9, step, 5));
    double ab = 0, ac = 0;
    for (int i = 0; i < draws; ++i) {
      const double x = a.uniform() - 0.5;
      ab += x * (b.uniform() - 0.5);
      ac += x * (c.uniform() - 0.5);
    }
    const double deviation = std::sqrt(draws) / 12;
    EXPECT_LT(std::abs(ab), 5 * deviation);
    EXPECT_LT(std::abs(ac), 5 * deviation);
  }
}

TEST(RandomStream, NormalHasUnitMoments) {
  RandomStream stream(random_key(3, 1, 4));
  const int draws = 100000;
  double sum = 0, square = 0, fourth = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = stream.normal();
    sum += x, square += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / draws, 0, 5 / std::sqrt(draws));
  EXPECT_NEAR(square / draws, 1, 5 * std::sqrt(2.0 / draws));
  EXPECT_NEAR(fourth / draws, 3, 5 * std::sqrt(96.0 / draws));
}

TEST(RandomStream, BelowIsUniformForAwkwardBounds) {
  RandomStream stream(random_key(3, 1, 5));
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[stream.below(7)];
  for (const int c : counts) EXPECT_NEAR(c, 10000, 6 * std::sqrt(10000 * 6 / 7.0));
  EXPECT_EQ(stream.below(1), 0u);
}

TEST(Shuffle, IsAPermutationAndDependsOnTheKeyOnly) {
  std::vector<int> a(100), b(100), c(100);
  for (auto* v : {&a, &b, &c}) std::iota(v->begin(), v->end(), 0);
  RandomStream first(1), second(1), third(2);
  shuffle(a, first), shuffle(b, second), shuffle(c, third);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  std::sort(a.begin(), a.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a[i], i);
}
