#include "random_layers.h"

#include <comera/base/error.h>
#include <comera/plan/network.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::plan;

namespace {

std::string message(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Network, LeavesLieAsTheLayerHasThem) {
  const Network network = layer_network({format::tt({12, 8}, {8, 6}, {3, 5, 4})}, 64, Results::all);
  ASSERT_EQ(network.size(), 6);
  std::vector<std::string> leaves;
  for (const Leaf& leaf : network.leaves) leaves.push_back(leaf.name + to_string(network, leaf.indices));
  EXPECT_EQ(leaves, (std::vector<std::string>{"X[b, m1, m2]", "G1[m1, r1]", "G2[r1, m2, r2]",
                                              "G3[r2, n1, r3]", "G4[r3, n2]", "dY[b, n1, n2]"}));
  EXPECT_EQ(network.wanted, 0b11111u);
  EXPECT_EQ(layer_network({format::tt({4}, {4}, {2})}, 1, Results::without_input).wanted, 0b110u);
  EXPECT_EQ(layer_network({format::tt({4}, {4}, {2})}, 1, Results::forward).wanted, 0u);
}

TEST(Network, SeveralLayersOfOneInputAreOneNetwork) {
  const Network network =
      layer_network({format::tt({4, 3}, {5}, {2, 6}), format::tt({4, 3}, {5}, {3, 4})}, 7, Results::all);
  EXPECT_EQ(to_string(network, network.leaves[0].indices), "[b, m1, m2]");
  EXPECT_EQ(to_string(network, network.leaves[2].indices), "[l, r1, m2, r2]");
  EXPECT_EQ(to_string(network, network.leaves.back().indices), "[b, l, n1]");
  EXPECT_EQ(checked_elements(network, network.leaves[2].indices, "G2"), 2 * 3 * 3 * 6)
      << "padded to the largest ranks";
}

TEST(Network, OpenIndicesAreThoseAlsoOutside) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const Network network = test::random_network(2 + static_cast<int>(seed % 4), random);
    const Openings openings(network);
    for (Leaves set = 1; set < network.all(); ++set) {
      Indices open = 0;
      double elements = 1;
      for (std::size_t i = 0; i < network.indices.size(); ++i) {
        bool inside = false, outside = false;
        for (int leaf = 0; leaf < network.size(); ++leaf)
          if (network.leaves[leaf].indices >> i & 1) (set >> leaf & 1 ? inside : outside) = true;
        if (!inside || !outside) continue;
        open |= Indices{1} << i;
        elements *= static_cast<double>(network.indices[i].size);
      }
      ASSERT_EQ(openings.open(set), open);
      ASSERT_EQ(openings.elements(open), elements);
    }
  }
}

TEST(Network, AnyLeafCanBeTheRoot) {
  const Network network = layer_network({format::tt({4, 3}, {5}, {2, 6})}, 7, Results::all);
  const Network turned = rooted_at(network, 0);
  EXPECT_EQ(turned.leaves.back().name, "X");
  EXPECT_EQ(turned.leaves.front().name, "dY");
  EXPECT_EQ(turned.wanted, 0u);
}

TEST(Network, BadLayersAreRefused) {
  const format::Shape good = format::tt({4, 4}, {4, 4}, {2});
  EXPECT_THROW(layer_network({}, 1, Results::all), Error);
  EXPECT_NE(message([&] { layer_network({good}, 0, Results::all); }).find("tokens"), std::string::npos);
  EXPECT_THROW(layer_network({format::ttm(16, {4, 4}, {2, 2}, {2})}, 1, Results::all), Error);
  EXPECT_THROW(layer_network({format::tt({4, 4}, {4, 4}, {0})}, 1, Results::all), Error);
  EXPECT_THROW(layer_network({good, format::tt({2, 8}, {4, 4}, {2})}, 1, Results::all), Error);
  format::Shape inconsistent = good;
  inconsistent.ranks.pop_back();
  EXPECT_THROW(layer_network({inconsistent}, 1, Results::all), Error);
  format::Shape zero = good;
  zero.row_digits[0] = 0;
  EXPECT_THROW(layer_network({zero}, 1, Results::all), Error);
  const std::vector<std::int64_t> nine(9, 2);
  EXPECT_NE(message([&] { layer_network({format::tt(nine, nine, {2})}, 1, Results::all); }).find("16 cores"),
            std::string::npos);
  EXPECT_NE(message([&] { layer_network({good}, std::int64_t{1} << 60, Results::all); }).find("2^63"),
            std::string::npos);
  EXPECT_THROW(dense_network(0, 4, 4, Results::all), Error);
}

TEST(Network, TokenBuckets) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t tokens = 0; tokens <= 33; ++tokens)
    if (const auto bucket = token_bucket(tokens); buckets.empty() || buckets.back() != bucket)
      buckets.push_back(bucket);
  EXPECT_EQ(buckets, (std::vector<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}));
  EXPECT_EQ(token_bucket(4096), 4096);
  EXPECT_THROW(token_bucket(-1), Error);
}
