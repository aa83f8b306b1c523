#include <comera/base/error.h>
#include <comera/plan/tree.h>

#include <gtest/gtest.h>

#include <set>

using namespace comera;
using namespace comera::plan;

namespace {

const format::Shape kAttention = format::tt({12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12});
const format::Shape kUp = format::tt({12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16});

double adds(const format::Shape& shape, const Tree& tree, std::int64_t tokens,
            Results results = Results::all) {
  const Network network = layer_network({shape}, tokens, results);
  return tree_cost(network, Openings(network), tree, MultiplyAdds());
}

// The most tokens up to which core by core needs fewer multiply-adds than two groups.
std::int64_t crossover(const format::Shape& shape) {
  std::int64_t last = 0;
  for (std::int64_t tokens = 1; tokens <= 200; ++tokens)
    if (adds(shape, core_by_core_tree(6), tokens) < adds(shape, two_group_tree(6, 3), tokens)) {
      EXPECT_EQ(tokens, last + 1) << "one crossover only";
      last = tokens;
    }
  return last;
}

}  // namespace

TEST(Tree, EveryTreeIsEnumeratedOnce) {
  std::size_t expected = 1;
  for (int leaves = 3; leaves <= 8; ++leaves) {
    if (leaves > 3) expected *= 2 * leaves - 5;
    std::set<std::vector<Leaves>> seen;
    for_each_tree(leaves, [&](const Tree& tree) {
      validate(tree);
      auto sets = tree.sets();
      std::sort(sets.begin(), sets.end());
      seen.insert(sets);
    });
    EXPECT_EQ(seen.size(), expected) << leaves << " leaves";
  }
  EXPECT_THROW(for_each_tree(2, [](const Tree&) {}), Error);
}

TEST(Tree, NamedTrees) {
  const Network network = layer_network({kAttention}, 1, Results::all);
  EXPECT_EQ(to_string(two_group_tree(6, 3), network), "((X ((G1 G2) G3)) (G4 (G5 G6)))");
  EXPECT_EQ(to_string(core_by_core_tree(6), network), "((((((X G1) G2) G3) G4) G5) G6)");
  EXPECT_EQ(to_string(two_group_tree(2, 1), layer_network({format::tt({4}, {4}, {2})}, 1, Results::all)),
            "((X G1) G2)");
}

TEST(Tree, WhatIsNoTreeIsRefused) {
  EXPECT_THROW(tree_from_sets(4, {0b11}), Error);
  EXPECT_THROW(tree_from_sets(4, {0b11, 0b110}), Error);
  EXPECT_THROW(tree_from_sets(5, {0b11, 0b11, 0b1111}), Error);
  Tree tree = core_by_core_tree(3);
  std::swap(tree.nodes[0].left, tree.nodes[0].right);
  EXPECT_THROW(validate(tree), Error);
  tree = core_by_core_tree(3);
  tree.nodes[1].left = 7;
  EXPECT_THROW(validate(tree), Error);
  tree.nodes[1].left = -1;
  EXPECT_THROW(validate(tree), Error);
  EXPECT_THROW(two_group_tree(3, 3), Error);
}

// Two groups cost 3 b (in + out) r for the tokens and three times the two builds.
TEST(Tree, TwoGroupsByHand) {
  const double build = 12 * 12 * 8 * 30 + 12 * 8 * 30 * 8 * 30, tokens = 64.0 * (768 + 768) * 30;
  EXPECT_EQ(adds(kAttention, two_group_tree(6, 3), 64), 3 * (2 * build + tokens));
  EXPECT_EQ(adds(kAttention, two_group_tree(6, 3), 64, Results::forward), 2 * build + tokens);
  EXPECT_EQ(adds(kAttention, two_group_tree(6, 3), 64, Results::without_input),
            3 * (2 * build + tokens) - 64.0 * 768 * 30);
}

TEST(Tree, CoreByCoreWinsUpTo44And47Tokens) {
  EXPECT_EQ(crossover(kAttention), 44);
  EXPECT_EQ(crossover(kUp), 47);
}
