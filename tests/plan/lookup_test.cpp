#include "random_layers.h"

#include <comera/base/error.h>
#include <comera/plan/lookup.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace comera;
using namespace comera::plan;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const format::Shape kWords = format::ttm(30'522, {16, 20, 10, 10}, {4, 4, 8, 6}, {1, 32, 32, 32, 1});

// Least cost over every order and every choice of full or distinct, without remembering anything.
double enumerate(const LookupRequest& request, const Profile& profile, int first, int last, bool full) {
  const int order = static_cast<int>(request.table.order());
  if (last == first + 1) return full ? 0 : kInfinite;
  if (full && last - first == order) return kInfinite;
  double least = kInfinite;
  for (int split = first + 1; split < last; ++split) {
    const LookupPart part = lookup_part(request, profile, first, split, last, full);
    const double own =
        request.goal == Goal::time ? part.seconds : (request.training ? 3 : 1) * part.multiply_adds;
    for (const bool left : {true, false})
      for (const bool right : {true, false}) {
        if (full && !(left && right)) continue;
        least = std::min(least, own + enumerate(request, profile, first, split, left) +
                                    enumerate(request, profile, split, last, right));
      }
  }
  return least;
}

}  // namespace

TEST(Lookup, EqualsEnumeration) {
  const Profile profile = default_profile();
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const int order = 2 + static_cast<int>(random.below(4));
    std::vector<std::int64_t> rows, cols, ranks{1};
    for (int k = 0; k < order; ++k) {
      rows.push_back(test::pick({1, 2, 7, 16, 80}, random));
      cols.push_back(test::pick({1, 2, 4, 8}, random));
      ranks.push_back(k + 1 < order ? test::pick({1, 4, 32}, random) : 1);
    }
    std::int64_t all = 1;
    for (const std::int64_t digit : rows) all *= digit;
    LookupRequest request{format::ttm(all, rows, cols, ranks), test::pick({1, 10, 4096, 100'000}, random)};
    request.training = random.below(2);
    for (const Goal goal : {Goal::multiply_adds, Goal::time}) {
      request.goal = goal;
      const LookupPlan plan = plan_lookup(request, profile);
      const double cost = goal == Goal::time ? plan.predicted_seconds : plan.multiply_adds;
      EXPECT_NEAR(cost, enumerate(request, profile, 0, order, false), 1e-12 * cost);
      request.chains_only = true;
      const LookupPlan chains = plan_lookup(request, profile);
      EXPECT_GE(goal == Goal::time ? chains.predicted_seconds : chains.multiply_adds, cost * (1 - 1e-12));
      request.chains_only = false;
      EXPECT_EQ(plan.parts.size(), 2u * order - 1);
      EXPECT_EQ(plan.parts.back().first, 0);
      EXPECT_EQ(plan.parts.back().last, order);
    }
  }
}

// Few rows: only what occurs. Many rows: the tables of both halves whole.
TEST(Lookup, TablesAreFullWhereMostOccurs) {
  LookupRequest request{kWords, 16};
  request.goal = Goal::multiply_adds;
  const LookupPlan few = plan_lookup(request, default_profile());
  EXPECT_FALSE(few.parts.back().full);
  EXPECT_LE(few.parts.back().entries, 16);
  request.rows = 200'000;
  request.goal = Goal::time;
  request.chains_only = true;
  const LookupPlan many = plan_lookup(request, default_profile());
  EXPECT_EQ(many.split(), 2);
  for (const LookupPart& part : many.parts)
    EXPECT_EQ(part.full, part.last - part.first < 4) << part.first << " " << part.last;
  EXPECT_LT(many.parts.back().entries, 30'522);
}

TEST(Lookup, ByHand) {
  // 100 rows of a table of 3 cores: prefix of digits 1..2 full (6 entries), then one product a row.
  LookupRequest request{format::ttm(30, {2, 3, 5}, {2, 2, 2}, {1, 3, 4, 1}), 100};
  request.distinct_rows = 30;
  request.goal = Goal::multiply_adds;
  request.training = false;
  const LookupPart prefix = lookup_part(request, default_profile(), 0, 1, 2, true);
  EXPECT_EQ(prefix.entries, 6);
  EXPECT_EQ(prefix.columns, 4);
  EXPECT_EQ(prefix.multiply_adds, 6 * 2 * 3 * (2 * 4));
  EXPECT_EQ(prefix.bytes, 6 * 4 * 4 * 4);
  const LookupPart rows = lookup_part(request, default_profile(), 0, 2, 3, false);
  EXPECT_EQ(rows.multiply_adds, 30 * 4 * 4 * 2);
  // Whichever is split off, the search may not do worse.
  EXPECT_LE(plan_lookup(request, default_profile()).multiply_adds, prefix.multiply_adds + rows.multiply_adds);
}

TEST(Lookup, GivenRatesAreUsed) {
  LookupRequest request{kWords, 4096};
  request.distinct_rows = 4000;
  request.distinct_parts.assign(25, 0.0);
  request.distinct_parts[0 * 5 + 2] = 7;  // only 7 prefixes of two digits occur
  EXPECT_EQ(lookup_part(request, default_profile(), 0, 1, 2, false).entries, 7);
  EXPECT_EQ(lookup_part(request, default_profile(), 0, 2, 4, false).entries, 4000);
}

TEST(Lookup, ExpectedDistinctValues) {
  EXPECT_EQ(expected_distinct(1, 5), 1);
  EXPECT_NEAR(expected_distinct(2, 2), 1.5, 1e-12);
  EXPECT_NEAR(expected_distinct(1e9, 10), 10, 1e-6);
  EXPECT_NEAR(expected_distinct(10, 1e6), 10, 1e-12);
}

TEST(Lookup, OneCoreIsReadAsItIs) {
  const LookupPlan plan = plan_lookup({format::ttm(7, {7}, {5}, {1, 1}), 3}, default_profile());
  EXPECT_EQ(plan.multiply_adds, 0);
  EXPECT_EQ(plan.split(), 0);
  EXPECT_EQ(plan.parts.size(), 1u);
}

TEST(Lookup, BadRequestsAreRefused) {
  const Profile profile = default_profile();
  EXPECT_THROW(plan_lookup({format::tt({4}, {4}, {2}), 3}, profile), Error);
  EXPECT_THROW(plan_lookup({kWords, 0}, profile), Error);
  EXPECT_THROW(plan_lookup({format::ttm(16, {4, 4}, {2, 2}, {0}), 3}, profile), Error);
  LookupRequest request{kWords, 10};
  request.distinct_rows = 11;
  EXPECT_THROW(plan_lookup(request, profile), Error);
  request.distinct_rows = 0;
  request.distinct_parts = {1, 2};
  EXPECT_THROW(plan_lookup(request, profile), Error);
  request.distinct_parts.clear();
  request.goal = Goal::memory;
  EXPECT_THROW(plan_lookup(request, profile), Error);
}

TEST(Lookup, IsPrinted) {
  const LookupPlan plan = plan_lookup({kWords, 4096}, default_profile());
  EXPECT_NE(to_string(plan).find("digits 1-4"), std::string::npos) << to_string(plan);
  const Json json = to_json(plan);
  EXPECT_EQ(json["parts"].size(), plan.parts.size());
  EXPECT_GT(json["total_multiply_adds"].get<double>(), 0);
}
