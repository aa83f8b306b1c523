// A plan that may use another tree for each result, sharing whatever products they have in common, is never
// cheaper in multiply-adds than one tree for all. Not proven; looked for here by branch and bound.
#include "random_layers.h"

#include <comera/plan/search.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <unordered_map>

using namespace comera;
using namespace comera::plan;

namespace {

// Sets of leaves that are needed and not yet made from two others.
using Needed = std::bitset<128>;

class MixedPlans {
 public:
  explicit MixedPlans(const Network& network) : all_(network.all()), openings_(network) {
    shared_cost_.resize(all_ + 1);
    for (Leaves set = 1; set < all_; ++set) {
      if (std::has_single_bit(set)) continue;
      const Leaves low = set & (~set + 1), rest = set ^ low;
      auto& splits = splits_[set];
      for (Leaves right = rest; right != 0; right = (right - 1) & rest)
        splits.push_back(
            {set ^ right, right, openings_.elements(openings_.open(set ^ right) | openings_.open(right))});
      std::sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) { return a.cost < b.cost; });
    }
  }

  /// Whether some plan costs less than `limit`.
  bool cheaper_than(double limit) {
    Needed results;
    for (int leaf = 0; leaf < std::popcount(all_); ++leaf) results.set(all_ & ~(Leaves{1} << leaf));
    limit_ = limit;
    return visit(results, 0);
  }
  std::int64_t visited() const { return visited_; }

 private:
  struct Split {
    Leaves left, right;
    double cost;
  };

  // At most the cost of making all of `needed`: a product that several of them could use is charged to each
  // in equal shares, and then each may be made at its own best.
  double bound(const Needed& needed) {
    std::vector<Leaves> list;
    for (Leaves set = 1; set < all_; ++set)
      if (needed[set]) list.push_back(set);
    double total = 0;
    for (Leaves set = 1; set < all_; ++set) {
      if (std::has_single_bit(set)) continue;
      const auto users =
          std::count_if(list.begin(), list.end(), [&](Leaves user) { return (set & user) == set; });
      if (users == 0) continue;
      double least = -1;
      for (const Split& split : splits_[set]) {
        const double own = split.cost / static_cast<double>(users);
        if (least >= 0 && own >= least) break;
        const double cost = own + shared_cost_[split.left] + shared_cost_[split.right];
        if (least < 0 || cost < least) least = cost;
      }
      shared_cost_[set] = least;
      if (needed[set]) total += least;
    }
    return total;
  }

  // Makes the largest needed set in every way; what it is made from is needed then.
  bool visit(const Needed& needed, double spent) {
    ++visited_;
    Leaves largest = 0;
    for (Leaves set = 1; set < all_; ++set)
      if (needed[set] && std::popcount(set) > std::popcount(largest)) largest = set;
    if (largest == 0) return spent < limit_;
    if (const auto seen = seen_.find(needed); seen != seen_.end() && seen->second <= spent) return false;
    seen_[needed] = spent;
    struct Next {
      double bound, spent;
      Needed needed;
    };
    std::vector<Next> next;
    for (const Split& split : splits_[largest]) {
      Needed after = needed;
      after.reset(largest);
      for (const Leaves part : {split.left, split.right})
        if (!std::has_single_bit(part)) after.set(part);
      const double cost = spent + split.cost, least = cost + bound(after);
      if (least < limit_) next.push_back({least, cost, after});
    }
    std::sort(next.begin(), next.end(), [](const Next& a, const Next& b) { return a.bound < b.bound; });
    for (const Next& one : next)
      if (visit(one.needed, one.spent)) return true;
    return false;
  }

  Leaves all_;
  Openings openings_;
  std::unordered_map<Leaves, std::vector<Split>> splits_;
  std::vector<double> shared_cost_;
  std::unordered_map<Needed, double> seen_;
  double limit_ = 0;
  std::int64_t visited_ = 0;
};

void expect_one_tree_wins(const Network& network) {
  const double best = TreeSearch(network, MultiplyAdds()).cheapest().cost;
  MixedPlans mixed(network);
  EXPECT_FALSE(mixed.cheaper_than(best * (1 - 1e-9))) << "one tree costs " << best;
}

}  // namespace

// The check itself finds the best tree when it may cost as much.
TEST(MixedTrees, TheSearchFindsPlans) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const format::Shape layer =
        test::random_layer(2 + static_cast<int>(seed % 3), {2, 3, 5}, {1, 2, 6}, random);
    const Network network = layer_network({layer}, 7, Results::all);
    MixedPlans mixed(network);
    EXPECT_TRUE(mixed.cheaper_than(TreeSearch(network, MultiplyAdds()).cheapest().cost * (1 + 1e-9)));
  }
}

class MixedTrees : public testing::TestWithParam<int> {};

TEST_P(MixedTrees, AreNeverCheaper) {
  const int leaves = GetParam();
  const int rounds = leaves < 6 ? 100 : leaves == 6 ? 60 : 20;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t seed = 1000 * leaves + round;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const format::Shape layer =
        test::random_layer(leaves - 2, {1, 2, 3, 5, 8, 13, 30}, {1, 2, 3, 4, 8, 16, 40}, random);
    expect_one_tree_wins(layer_network({layer}, test::pick({1, 2, 5, 16, 64, 300}, random), Results::all));
  }
}
INSTANTIATE_TEST_SUITE_P(Leaves, MixedTrees, testing::Values(4, 5, 6, 7));
