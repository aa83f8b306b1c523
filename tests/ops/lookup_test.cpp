// The integer side of the table look-up.
#include "ttm_embedding/lookup.h"

#include <comera/base/random.h>

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace comera;
using namespace comera::ops::ttm;

namespace {

Integers random_integers(std::int64_t count, std::int64_t below, std::uint64_t seed) {
  RandomStream random(seed);
  Integers values(count);
  for (auto& value : values) value = random.below(below);
  return values;
}

// Digits of a chain's code, the first core's first.
Integers digits_of(std::int64_t code, const Integers& modes) {
  Integers digits;
  for (const std::int64_t mode : modes) digits.push_back(code % mode), code /= mode;
  return digits;
}

// Digits of an entry, followed through its parents.
Integers digits_at(const Chain& chain, std::int64_t entry) {
  Integers digits;
  for (std::size_t j = chain.levels.size(); j-- > 0;) {
    const Level& level = chain.levels[j];
    std::int64_t digit = 0;
    while (level.starts[digit + 1] <= entry) ++digit;
    digits.insert(digits.begin(), digit);
    if (j > 0) entry = level.parents[entry];
  }
  return digits;
}

}  // namespace

TEST(Lookup, DistinctValuesAreThoseOfASet) {
  for (const std::int64_t below :
       {std::int64_t{1}, std::int64_t{3}, std::int64_t{5000}, std::int64_t{1} << 62})
    for (const std::int64_t count : {0, 1, 7, 3000}) {
      const std::uint64_t seed = 31;
      SCOPED_TRACE(testing::Message() << "seed " << seed << " below " << below << " count " << count);
      const Integers keys = random_integers(count, below, seed);
      const Distinct result = distinct(keys);
      const std::set<std::int64_t> expected(keys.begin(), keys.end());
      EXPECT_EQ(result.values, Integers(expected.begin(), expected.end()));
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(result.values[result.place[i]], keys[i]);
    }
}

TEST(Lookup, MembersAreInOrder) {
  const Members members = members_of({2, 0, 2, 2, 0}, 4);
  EXPECT_EQ(members.starts, (Integers{0, 2, 2, 5, 5}));
  EXPECT_EQ(members.entries, (Integers{1, 4, 0, 2, 3}));
}

TEST(Lookup, ChainsLeadToTheDigitsAskedFor) {
  for (const Integers& modes : {Integers{5}, Integers{4, 3}, Integers{3, 5, 2, 4}, Integers{1, 6, 1}})
    for (const std::int64_t count : {0, 1, 4, 40, 400}) {
      std::int64_t combinations = 1;
      for (const std::int64_t mode : modes) combinations *= mode;
      const Integers codes = random_integers(count, combinations, 32);
      const Chain chain = make_chain(codes, modes);
      ASSERT_EQ(chain.levels.size(), modes.size());
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(digits_at(chain, chain.place[i]), digits_of(codes[i], modes)) << "entry " << i;
      std::int64_t all = 1;
      for (std::size_t j = 0; j < modes.size(); ++j) {
        all *= modes[j];
        if (j > 0) EXPECT_LE(chain.levels[j].entries(), std::min(all, count)) << "never more than the rows";
      }
    }
}

TEST(Lookup, BlocksCoverTheRowsOnceAndShareASuffix) {
  const Geometry geometry{{16, 20, 10, 10}, {4, 4, 8, 6}, {1, 32, 32, 32, 1}};
  const Integers indices = random_integers(4096, 30522, 33);
  const Lookup lookup = make_lookup(indices, geometry);
  EXPECT_EQ(lookup.split, 2);
  EXPECT_EQ(lookup.rows, std::set<std::int64_t>(indices.begin(), indices.end()).size());
  std::int64_t next = 0;
  for (const Block& block : lookup.blocks) {
    EXPECT_EQ(block.begin, next);
    EXPECT_GT(block.end, block.begin);
    for (std::int64_t row = block.begin; row < block.end; ++row)
      EXPECT_EQ(lookup.suffix.place[row], block.suffix);
    next = block.end;
  }
  EXPECT_EQ(next, lookup.rows);
  for (std::size_t t = 0; t < indices.size(); ++t) {
    const std::int64_t row = lookup.row_of[t];
    const Integers prefix = digits_at(lookup.prefix, lookup.prefix.place[row]);
    const Integers suffix = digits_at(lookup.suffix, lookup.suffix.place[row]);
    ASSERT_EQ(((prefix[0] * 20 + prefix[1]) * 10 + suffix[1]) * 10 + suffix[0], indices[t]);
  }
}

TEST(Lookup, TheSplitKeepsTablesSmall) {
  // A low-rank table must not be multiplied out, whichever core has the rows.
  for (const Geometry& geometry :
       {Geometry{{30522, 1}, {1, 768}, {1, 64, 1}}, Geometry{{1, 30522}, {768, 1}, {1, 64, 1}}}) {
    const Lookup lookup = make_lookup(random_integers(100, 30522, 34), geometry);
    EXPECT_EQ(lookup.split, 1);
    EXPECT_EQ(lookup.prefix.levels.size() + lookup.suffix.levels.size(), 2);
  }
  // Few tokens: no level has more entries than rows.
  const Geometry large{{80, 50, 54, 50}, {4, 4, 4, 2}, {1, 32, 32, 32, 1}};
  const Lookup lookup = make_lookup(random_integers(10, 80 * 50 * 54 * 50, 35), large);
  for (const Chain* chain : {&lookup.prefix, &lookup.suffix})
    for (std::size_t j = 1; j < chain->levels.size(); ++j) EXPECT_LE(chain->levels[j].entries(), 10);
}
