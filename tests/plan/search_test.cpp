#include "random_layers.h"

#include <comera/base/error.h>
#include <comera/plan/search.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

using namespace comera;
using namespace comera::plan;

namespace {

struct Enumerated {
  std::vector<double> costs;  // of all trees, ascending
  double joining_x = std::numeric_limits<double>::infinity();
};

Enumerated enumerate(const Network& network, const Objective& objective) {
  const Openings openings(network);
  Enumerated all;
  for_each_tree(network.size(), [&](const Tree& tree) {
    const double cost = tree_cost(network, openings, tree, objective);
    all.costs.push_back(cost);
    if (tree.nodes.back().left == 0) all.joining_x = std::min(all.joining_x, cost);
  });
  std::sort(all.costs.begin(), all.costs.end());
  return all;
}

void expect_equal_to_enumeration(const Network& network, const Objective& objective) {
  const Enumerated all = enumerate(network, objective);
  const TreeSearch search(network, objective);
  const Found best = search.cheapest();
  const auto near = [](double cost) { return 1e-12 * cost; };
  EXPECT_NEAR(best.cost, all.costs[0], near(best.cost));
  EXPECT_NEAR(tree_cost(network, Openings(network), best.tree, objective), best.cost, near(best.cost));
  EXPECT_NEAR(search.cheapest_joining(1).cost, all.joining_x, near(all.joining_x));
  const auto many = search.cheapest(32);
  ASSERT_EQ(many.size(), std::min<std::size_t>(32, all.costs.size()));
  for (std::size_t i = 0; i < many.size(); ++i) {
    EXPECT_NEAR(many[i].cost, all.costs[i], near(all.costs[i])) << "rank " << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(many[i].tree == many[j].tree);
  }
}

}  // namespace

class Search : public testing::TestWithParam<int> {};

TEST_P(Search, EqualsTheEnumerationOfEveryTree) {
  const int leaves = GetParam();
  const int rounds = leaves == 8 ? 5 : leaves == 7 ? 20 : 60;
  const Profile profile = default_profile();
  const MultiplyAdds adds;
  const BytesMoved bytes(DType::float32);
  const PredictedTime time(profile, DType::float32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t seed = 1000 * leaves + round;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const Network network = test::random_network(leaves - 2, random);
    for (const Objective* objective :
         {static_cast<const Objective*>(&adds), static_cast<const Objective*>(&bytes),
          static_cast<const Objective*>(&time)})
      expect_equal_to_enumeration(network, *objective);
  }
}
INSTANTIATE_TEST_SUITE_P(Leaves, Search, testing::Values(4, 5, 6, 7, 8));

TEST(SearchFacts, TwoGroupsAgainstTheBestAt64Tokens) {
  const auto ratio = [](const format::Shape& shape) {
    const Network network = layer_network({shape}, 64, Results::all);
    const MultiplyAdds adds;
    return tree_cost(network, Openings(network), two_group_tree(6, 3), adds) /
           TreeSearch(network, adds).cheapest().cost;
  };
  EXPECT_NEAR(ratio(format::tt({12, 8, 8}, {8, 8, 12}, {30})), 1.12, 0.005);
  EXPECT_NEAR(ratio(format::tt({12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16})), 1.27, 0.005);
}

// With bonds of rank 1 the best tree may join cores that are no neighbours, against the usual belief.
TEST(SearchFacts, CoresThatAreNoNeighboursMayJoinFirst) {
  const Network network =
      layer_network({format::tt({64, 64, 100, 2}, {64}, {1, 1, 1, 1})}, 4096, Results::without_input);
  const MultiplyAdds adds;
  const Openings openings(network);
  double neighbours = std::numeric_limits<double>::infinity();
  for_each_tree(network.size(), [&](const Tree& tree) {
    for (const Leaves set : tree.sets())
      if (const Leaves from_first = set >> std::countr_zero(set);
          !(set & 1) && (from_first & (from_first + 1)))
        return;
    neighbours = std::min(neighbours, tree_cost(network, openings, tree, adds));
  });
  EXPECT_LT(TreeSearch(network, adds).cheapest().cost, neighbours);
}

TEST(SearchFacts, OneTokenAndDimensionsOfOne) {
  const Network network = layer_network({format::tt({1, 1}, {1, 1}, {1, 1, 1})}, 1, Results::all);
  EXPECT_EQ(TreeSearch(network, MultiplyAdds()).cheapest().cost, 12);
  EXPECT_EQ(TreeSearch(network, MultiplyAdds()).cheapest(1000).size(), 105u) << "as many as there are";
}

// Without the bound of what a contraction costs at least this takes minutes.
TEST(SearchFacts, SixteenCoresReturn) {
  const std::vector<std::int64_t> digits(8, 2);
  const Network network = layer_network({format::tt(digits, digits, {12})}, 4096, Results::all);
  const Found best = TreeSearch(network, PredictedTime(default_profile(), DType::float32)).cheapest();
  EXPECT_EQ(best.tree.leaves, 18);
  EXPECT_GT(best.cost, 0);
}

// The order in which a layer names its dimensions has no say: the mirrored layer costs the same.
TEST(SearchFacts, MirroredLayersCostTheSame) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const format::Shape layer = test::random_layer(5, {1, 2, 3, 7, 16}, {1, 2, 5, 20}, random);
    auto in = layer.col_digits, out = layer.row_digits, ranks = layer.ranks;
    for (auto* list : {&in, &out, &ranks}) std::reverse(list->begin(), list->end());
    const Network one = layer_network({layer}, 11, Results::all),
                  other = layer_network({format::tt(in, out, ranks)}, 11, Results::all);
    EXPECT_EQ(TreeSearch(one, MultiplyAdds()).cheapest().cost,
              TreeSearch(other, MultiplyAdds()).cheapest().cost);
  }
}
