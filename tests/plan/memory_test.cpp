#include "random_layers.h"

#include <comera/base/error.h>
#include <comera/plan/memory.h>
#include <comera/plan/plan.h>
#include <comera/plan/search.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

using namespace comera;
using namespace comera::plan;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Peak of one order, counted thing by thing.
double peak_of(const Job& job, const std::vector<int>& order) {
  const auto needed_after = [&](std::size_t position, int thing) {
    if (job.kept[thing]) return true;
    for (std::size_t i = position; i < order.size(); ++i)
      if (job.operations[order[i]].left == thing || job.operations[order[i]].right == thing) return true;
    return false;
  };
  std::vector<char> there = job.given;
  const auto live = [&](std::size_t position) {
    double bytes = 0;
    for (std::size_t thing = 0; thing < there.size(); ++thing)
      if (there[thing] && needed_after(position, static_cast<int>(thing))) bytes += job.bytes[thing];
    return bytes;
  };
  double peak = live(0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Operation& one = job.operations[order[i]];
    if (!there[one.left] || !there[one.right]) return kInfinite;
    peak = std::max(peak, live(i) + job.bytes[one.result] + one.workspace);
    there[one.result] = 1;
  }
  return peak;
}

double least_of_all_orders(const Job& job) {
  std::vector<int> order(job.operations.size());
  std::iota(order.begin(), order.end(), 0);
  double least = kInfinite;
  do {
    least = std::min(least, peak_of(job, order));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

struct Costs {
  MultiplyAdds trees;
  Workspace ways;
};

// Least peak of each sensible choice of a tree, and the choice's cost.
template <class Visit>
void for_each_choice(const Network& network, const Openings& openings, const Tree& tree, const Costs& costs,
                     Visit visit) {
  const TreeMemory memory(network, openings, tree, costs.trees, costs.ways, 4);
  for (std::uint32_t saved = 0; saved < 1u << (tree.nodes.size() - 1); ++saved)
    if (memory.sensible(saved)) visit(memory, saved);
}

double peak_of_choice(const TreeMemory& memory, std::uint32_t saved) {
  return std::max(least_peak(memory.forward(saved), kInfinite)->peak,
                  least_peak(memory.backward(saved), kInfinite)->peak);
}

}  // namespace

TEST(Schedule, EqualsTheBestOfAllOrders) {
  int jobs = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const Network network = test::random_network(seed < 8 ? 2 : 3, random);
    const Openings openings(network);
    for_each_tree(network.size(), [&](const Tree& tree) {
      for_each_choice(network, openings, tree, {}, [&](const TreeMemory& memory, std::uint32_t saved) {
        for (const Job& job : {memory.forward(saved), memory.backward(saved)}) {
          if (job.operations.size() > 8) continue;
          ++jobs;
          const auto order = least_peak(job, kInfinite);
          ASSERT_TRUE(order && order->exact);
          EXPECT_EQ(peak_of(job, order->operations), order->peak);
          EXPECT_EQ(order->peak, least_of_all_orders(job));
          EXPECT_TRUE(least_peak(job, order->peak));
          EXPECT_EQ(least_peak(job, std::nextafter(order->peak, 0)).has_value(), order->peak == 0);
          EXPECT_LE(memory.least(), peak_of_choice(memory, saved));
        }
      });
    });
  }
  EXPECT_GT(jobs, 200);
}

// An order found after a cut-off may be worse, but is an order, and is said not to be the best known.
TEST(Schedule, CutOffSearchesStillGiveAnOrder) {
  const Network network = layer_network({format::tt({4, 4, 4}, {4, 4, 4}, {8})}, 16, Results::all);
  const Openings openings(network);
  const MultiplyAdds adds;
  const TreeMemory memory(network, openings, core_by_core_tree(6), adds, adds, 4);
  const Job job = memory.backward(0);
  const auto order = least_peak(job, kInfinite, 1);
  ASSERT_TRUE(order);
  EXPECT_FALSE(order->exact);
  EXPECT_EQ(peak_of(job, order->operations), order->peak);
}

class Memory : public testing::TestWithParam<int> {};

// Over every tree and every choice of what is saved.
TEST_P(Memory, SmallestPeakAndCheapestWithinEqualEnumeration) {
  const int leaves = GetParam(), rounds = leaves <= 6 ? 20 : leaves == 7 ? 8 : 2;
  const Costs costs;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t seed = 100 * leaves + round;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const Network network = test::random_network(leaves - 2, random);
    const Openings openings(network);
    std::vector<std::pair<double, double>> all;  // peak, cost
    for_each_tree(leaves, [&](const Tree& tree) {
      for_each_choice(network, openings, tree, costs, [&](const TreeMemory& memory, std::uint32_t saved) {
        all.push_back({peak_of_choice(memory, saved), memory.cost(saved)});
      });
    });
    std::sort(all.begin(), all.end());
    const MemoryChoice smallest = smallest_peak(network, costs.trees, costs.ways, 4);
    EXPECT_TRUE(smallest.exact);
    EXPECT_EQ(smallest.peak, all.front().first);
    EXPECT_EQ(smallest.cost, all.front().second);

    for (const double limit :
         {all.front().first, all[all.size() / 7].first, all[all.size() / 2].first, all.back().first}) {
      double cheapest = kInfinite;
      for (const auto& [peak, cost] : all)
        if (peak <= limit) cheapest = std::min(cheapest, cost);
      const auto found = cheapest_within(network, costs.trees, costs.ways, 4, limit);
      ASSERT_TRUE(found);
      EXPECT_LE(found->peak, limit);
      EXPECT_EQ(found->cost, cheapest);
    }
    EXPECT_FALSE(cheapest_within(network, costs.trees, costs.ways, 4, std::nextafter(all.front().first, 0)));
  }
}
INSTANTIATE_TEST_SUITE_P(Leaves, Memory, testing::Values(4, 5, 6, 7, 8));

TEST(MemoryPlans, SmallerPeaksCostMoreAdds) {
  Request request{{format::tt({12, 8, 8}, {8, 8, 12}, {30})}, 64};
  const Profile profile = default_profile();
  const Plan fast = make_plan(request, profile);
  request.goal = Goal::memory;
  const Plan small = make_plan(request, profile);
  EXPECT_TRUE(small.peak_is_least);
  EXPECT_FALSE(fast.peak_is_least);
  EXPECT_LT(small.peak_bytes, fast.peak_bytes);
  EXPECT_GT(small.total_multiply_adds, fast.total_multiply_adds);
  request.goal = Goal::time;
  request.memory_limit = (small.peak_bytes + fast.peak_bytes) / 2;
  const Plan between = make_plan(request, profile);
  EXPECT_LE(between.peak_bytes, request.memory_limit);
  EXPECT_GE(between.predicted_seconds, fast.predicted_seconds);
}

// The limit that the error names is met, by the same request.
TEST(MemoryPlans, ALimitNoPlanMeetsNamesTheSmallestThatWould) {
  for (const int cores : {3, 6, 8}) {
    const std::vector<std::int64_t> digits(cores - 1, 4);
    Request request{{format::tt(digits, {6}, {8})}, 100};
    request.memory_limit = 1;
    std::string text;
    try {
      make_plan(request, default_profile());
    } catch (const Error& error) {
      text = error.what();
    }
    SCOPED_TRACE(text);
    EXPECT_EQ(text.find("upper bound") != std::string::npos, cores + 2 > kExactLeaves);
    const auto number = text.find("memory limit");
    ASSERT_NE(number, std::string::npos);
    request.memory_limit = std::stoll(text.substr(text.find_first_of("0123456789", number)));
    EXPECT_LE(make_plan(request, default_profile()).peak_bytes, request.memory_limit);
    if (cores + 2 > kExactLeaves) continue;
    --request.memory_limit;
    EXPECT_THROW(make_plan(request, default_profile()), Error);
  }
}
