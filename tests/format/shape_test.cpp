#include <comera/base/error.h>
#include <comera/format/shape.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::format;
using List = std::vector<std::int64_t>;

// The layers of the reference configuration, counted by hand in the design.
TEST(Shape, ReferenceLayersHaveTheDesignsCounts) {
  const Shape attention = tt({12, 8, 8}, {8, 8, 12}, {30});
  EXPECT_EQ(attention.ranks, (List{1, 12, 30, 30, 30, 12, 1}));
  EXPECT_EQ(attention.core_parameters(), 20'448);
  EXPECT_EQ(tt({12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16}).core_parameters(), 28'960);
  EXPECT_EQ(tt({16, 16, 12}, {8, 8, 12}, {30}).core_parameters(), 28'960);
  const Shape table = ttm(30522, {16, 20, 10, 10}, {4, 4, 8, 6}, {1, 32, 32, 32, 1});
  EXPECT_EQ(table.core_parameters(), 167'808);
  EXPECT_EQ(table.scale_parameters(), 96);
  EXPECT_EQ(table.cols, 768);
  EXPECT_EQ(25 * attention.core_parameters() + 12 * 28'960 + table.core_parameters(), 1'026'528);
}

TEST(Shape, RankCostIsTheDifferenceOfSizes) {
  Shape shape = tt({3, 5}, {2, 7, 4}, {4, 3, 6, 2});
  for (std::int64_t bond = 0; bond < shape.bonds(); ++bond) {
    Shape more = shape;
    ++more.ranks[bond + 1];
    EXPECT_EQ(more.parameters() - shape.parameters(), shape.rank_cost(bond));
  }
}

TEST(Shape, AdmissibleRanksAreBoundedByBothSides) {
  const Shape shape = tt({12, 8, 8}, {8, 8, 12}, {1000});
  EXPECT_EQ(shape.ranks, (List{1, 12, 96, 768, 96, 12, 1}));
}

TEST(Shape, RankListsInEveryAcceptedForm) {
  const Shape wanted = tt({4, 4}, {4, 4}, {4, 8, 4});
  EXPECT_EQ(tt({4, 4}, {4, 4}, {8}), wanted);
  EXPECT_EQ(tt({4, 4}, {4, 4}, {1, 4, 8, 4, 1}), wanted);
  for (const List& bad : {List{}, List{1, 2}, List{2, 4, 8, 4, 1}, List{4, -8, 4}, List{4, 0, 4}, List(7, 1)})
    EXPECT_THROW(tt({4, 4}, {4, 4}, bad), Error);
  try {
    tt({4, 4}, {4, 4}, {1, 2});
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("3 inner ranks (8,8,8)"), std::string::npos) << error.what();
  }
}

TEST(Shape, OneCoreAndDeadWeights) {
  EXPECT_EQ(ttm(7, {7}, {5}, {1, 1}).core_parameters(), 35);
  EXPECT_EQ(ttm(7, {7}, {5}, {3}).core_parameters(), 35);
  const Shape dead = tt({4, 4}, {4, 4}, {0});
  EXPECT_TRUE(dead.dead());
  EXPECT_EQ(dead.parameters(), 0);
}

TEST(Shape, MinimumIsTheSizeAtRankOne) {
  const Shape shape = tt({12, 8, 8}, {8, 8, 12}, {1});
  EXPECT_EQ(shape.parameters(), shape.minimum_parameters());
}

TEST(Shape, InconsistentShapesAreRefused) {
  EXPECT_THROW(tt({}, {4}, {2}), Error);
  EXPECT_THROW(tt({4, 0}, {4}, {2, 2}), Error);
  EXPECT_THROW(ttm(0, {4, 4}, {2, 2}, {2}), Error);
  EXPECT_THROW(ttm(17, {4, 4}, {2, 2}, {2}), Error);
  EXPECT_THROW(ttm(5, {4, 4}, {2}, {2}), Error);
  EXPECT_THROW(tt({std::int64_t{1} << 40}, {std::int64_t{1} << 40}, {2}), Error);
}

TEST(Shape, EqualShapesHashEqualAndTheTextNamesEverything) {
  const Shape a = tt({4, 2}, {2, 4}, {2}), b = tt({4, 2}, {2, 4}, {2}), c = tt({4, 2}, {2, 4}, {3});
  EXPECT_EQ(hash(a), hash(b));
  EXPECT_NE(hash(a), hash(c));
  EXPECT_EQ(to_string(a), "TT 4,2 x 2,4 ranks 1,2,2,2,1");
}
