#include "allocation.h"

#include <comera/base/error.h>
#include <comera/base/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace comera::rank {
namespace {

using Ranks = std::vector<std::int64_t>;

Candidate random_candidate(RandomStream& random, std::int64_t largest_rank) {
  Candidate candidate;
  const std::size_t cores = 2 + random.below(3);
  for (std::size_t k = 0; k < cores; ++k) candidate.modes.push_back(1 + random.below(4));
  for (std::size_t k = 0; k + 1 < cores; ++k) candidate.ranks.push_back(1 + random.below(largest_rank));
  for (const std::int64_t rank : candidate.ranks) {
    std::vector<double> damage(rank + 1, 0.0);
    double sigma = 0;
    for (std::int64_t r = rank; r-- > 0;) {
      sigma += random.uniform();
      damage[r] = damage[r + 1] + (random.below(4) == 0 ? 0 : sigma * sigma);
    }
    candidate.damage.push_back(damage);
  }
  return candidate;
}

bool usable(const std::vector<std::int64_t>& modes, const Ranks& ranks) {
  return usable_ranks(modes, ranks) == ranks;
}

void for_all_ranks(const Ranks& limits, const std::function<void(const Ranks&)>& visit) {
  Ranks ranks(limits.size(), 1);
  while (true) {
    visit(ranks);
    std::size_t k = 0;
    while (k < ranks.size() && ranks[k] == limits[k]) ranks[k++] = 1;
    if (k == ranks.size()) return;
    ++ranks[k];
  }
}

double damage_of(const Candidate& candidate, const Ranks& ranks) {
  double total = 0;
  for (std::size_t k = 0; k < ranks.size(); ++k) total += candidate.damage[k][ranks[k]];
  return total;
}

TEST(Allocation, UsableRanksAreTheLargestThatFit) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const Candidate candidate = random_candidate(random, 6);
    const Ranks found = usable_ranks(candidate.modes, candidate.ranks);
    for_all_ranks(candidate.ranks, [&](const Ranks& ranks) {
      bool fits = true;
      for (std::size_t k = 0; k < ranks.size(); ++k) {
        const std::int64_t before = k == 0 ? 1 : ranks[k - 1],
                           after = k + 1 == ranks.size() ? 1 : ranks[k + 1];
        fits &= ranks[k] <= candidate.modes[k] * before && ranks[k] <= candidate.modes[k + 1] * after;
      }
      if (!fits) return;
      for (std::size_t k = 0; k < ranks.size(); ++k) EXPECT_LE(ranks[k], found[k]);
    });
    EXPECT_EQ(usable_ranks(candidate.modes, found), found);
  }
}

// Small models, every budget from the smallest model up, against all possible choices.
TEST(Allocation, FitsEveryBudgetAndIsNearTheOptimum) {
  double excess = 0, optimum_total = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const std::vector<Candidate> candidates = {random_candidate(random, 4), random_candidate(random, 4)};
    std::vector<std::pair<std::int64_t, double>> choices[2];  // size, damage
    std::int64_t smallest = 0, largest = 0;
    for (int i = 0; i < 2; ++i) {
      const Candidate& candidate = candidates[i];
      for_all_ranks(candidate.ranks, [&](const Ranks& ranks) {
        if (usable(candidate.modes, ranks))
          choices[i].emplace_back(parameters_with(candidate.modes, ranks), damage_of(candidate, ranks));
      });
      smallest += parameters_with(candidate.modes, Ranks(candidate.ranks.size(), 1));
      largest += parameters_with(candidate.modes, candidate.ranks);
    }
    for (std::int64_t budget = smallest; budget <= largest + 1; ++budget) {
      const auto ranks = allocate(candidates, budget);
      std::int64_t size = 0;
      double damage = 0;
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(usable(candidates[i].modes, ranks[i]));
        for (std::size_t k = 0; k < ranks[i].size(); ++k) EXPECT_LE(ranks[i][k], candidates[i].ranks[k]);
        size += parameters_with(candidates[i].modes, ranks[i]);
        damage += damage_of(candidates[i], ranks[i]);
      }
      EXPECT_LE(size, budget);
      double optimum = std::numeric_limits<double>::infinity();
      for (const auto& [size_a, damage_a] : choices[0])
        for (const auto& [size_b, damage_b] : choices[1])
          if (size_a + size_b <= budget) optimum = std::min(optimum, damage_a + damage_b);
      EXPECT_GE(damage, optimum - 1e-9);
      excess += damage - optimum;
      optimum_total += optimum;
    }
    EXPECT_THROW(allocate(candidates, smallest - 1), Error);
  }
  RecordProperty("excess_percent", std::to_string(100 * excess / optimum_total));
  EXPECT_LT(excess, 0.05 * optimum_total);
}

TEST(Allocation, CutsNothingThatCostsDamageWhenAllFits) {
  RandomStream random(5);
  Candidate candidate = random_candidate(random, 6);
  candidate.ranks = usable_ranks(candidate.modes, candidate.ranks);
  for (std::size_t k = 0; k < candidate.ranks.size(); ++k) {
    candidate.damage[k].resize(candidate.ranks[k] + 1);
    for (std::int64_t r = 0; r <= candidate.ranks[k]; ++r) candidate.damage[k][r] = candidate.ranks[k] - r;
  }
  EXPECT_EQ(allocate({candidate}, parameters_with(candidate.modes, candidate.ranks))[0], candidate.ranks);
}

TEST(Allocation, SurvivesExtremeDamages) {
  const Candidate nothing{{3, 3}, {3}, {{0, 0, 0, 0}}}, huge{{3, 3}, {3}, {{1e30, 1e29, 1e28, 0}}},
      tiny{{3, 3}, {3}, {{1e-30, 1e-31, 1e-32, 0}}}, single{{5}, {}, {}};
  for (std::int64_t budget = 4 + 3 * 7 - 6 + 5; budget < 70; ++budget) {
    if (budget < 3 * 7 + 5) {
      EXPECT_THROW(allocate({nothing, huge, tiny, single}, budget), Error);
      continue;
    }
    std::int64_t size = 0;
    const auto ranks = allocate({nothing, huge, tiny, single}, budget);
    for (int i = 0; i < 3; ++i) size += parameters_with({3, 3}, ranks[i]);
    EXPECT_LE(size + 5, budget);
    EXPECT_GE(ranks[1][0], ranks[2][0]);
    EXPECT_GE(ranks[2][0], ranks[0][0]);
  }
}

}  // namespace
}  // namespace comera::rank
