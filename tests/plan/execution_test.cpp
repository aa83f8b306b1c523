// What a plan says is what comes out: every result, every count, the peak.
#include "interpreter.h"
#include "random_layers.h"

#include <comera/plan/memory.h>
#include <comera/plan/plan.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace comera;
using namespace comera::plan;

namespace {

// A layer with values and the results that they must give.
struct Case {
  Request request;
  std::vector<test::Values> leaves, expected;

  Case(std::vector<format::Shape> layers, std::int64_t tokens, Results results, std::uint64_t seed) {
    request.layers = std::move(layers);
    request.tokens = tokens;
    request.results = results;
    RandomStream random(seed);
    const Network network = layer_network(request.layers, tokens, results);
    leaves = test::random_leaves(network, random);
    for (int leaf = 0; leaf < network.size(); ++leaf)
      expected.push_back(test::direct_gradient(network, leaves, leaf));
  }

  void expect_runs(const Plan& plan) const {
    validate(plan, "test");
    test::Interpreter interpreter(plan, leaves);
    interpreter.run();
    EXPECT_EQ(interpreter.multiply_adds(), plan.total_multiply_adds);
    EXPECT_EQ(interpreter.peak(), plan.peak_bytes);
    std::int64_t left = 0;
    const bool backward = plan.network.wanted != 0;
    for (int leaf = 0; leaf < plan.network.size(); ++leaf) {
      const int id = plan.results[leaf];
      if (id < 0) continue;
      if (!backward || leaf != plan.network.root()) left += plan.tensors[id].bytes;
      const test::Values &actual = interpreter.result(leaf), &wanted = expected[leaf];
      ASSERT_EQ(actual.size(), wanted.size());
      double largest = 1e-300, error = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        largest = std::max(largest, std::abs(wanted[i]));
        error = std::max(error, std::abs(actual[i] - wanted[i]));
      }
      EXPECT_LT(error / largest, 1e-12) << plan.tensors[id].name;
    }
    EXPECT_EQ(interpreter.live(), left) << "everything but the results is given back";
  }
};

// Every tree with everything saved under each goal; with `choices` also every choice of what is saved.
void expect_every_tree_runs(const Case& c, bool choices) {
  const Profile profile = default_profile();
  const Network network = layer_network(c.request.layers, c.request.tokens, c.request.results);
  const Openings openings(network);
  for_each_tree(network.size(), [&](const Tree& tree) {
    SCOPED_TRACE(to_string(tree, network));
    for (const Goal goal : {Goal::bytes, Goal::time, Goal::memory}) {
      Request request = c.request;
      request.goal = goal;
      c.expect_runs(plan_tree(request, tree, profile));
    }
    if (!choices) return;
    const MultiplyAdds adds;
    const TreeMemory memory(network, openings, tree, adds, adds, 4);
    for (std::uint32_t saved = 0; saved < 1u << (tree.nodes.size() - 1); ++saved) {
      if (!memory.sensible(saved)) continue;
      SCOPED_TRACE(fmt::format("saved {:b}", saved));
      c.expect_runs(plan_tree(c.request, tree, saved, profile));
    }
  });
}

}  // namespace

TEST(Execution, EveryTreeOfTwoAndThreeCores) {
  for (const Results results : {Results::forward, Results::without_input, Results::all}) {
    expect_every_tree_runs(Case({format::tt({3}, {4}, {2})}, 5, results, 1), true);
    expect_every_tree_runs(Case({format::tt({2, 3}, {4}, {3, 2})}, 3, results, 2), true);
    expect_every_tree_runs(Case({format::tt({2}, {3, 2}, {1, 5, 2, 1})}, 1, results, 3), true);
  }
}

TEST(Execution, EveryTreeOfFourCores) {
  expect_every_tree_runs(Case({format::tt({2, 3}, {2, 2}, {2, 3, 2})}, 3, Results::all, 4), true);
  expect_every_tree_runs(Case({format::tt({3, 2, 2}, {2}, {2, 1, 3})}, 2, Results::without_input, 5), true);
  expect_every_tree_runs(Case({format::tt({1, 2}, {3, 1}, {2, 2, 4})}, 4, Results::forward, 6), false);
}

TEST(Execution, EveryTreeOfFiveCores) {
  expect_every_tree_runs(Case({format::tt({2, 2}, {2, 1, 2}, {2, 2, 1, 2})}, 2, Results::all, 7), false);
}

TEST(Execution, LayersThatRunAsOne) {
  const format::Shape q = format::tt({2, 3}, {2}, {2, 3}), k = format::tt({2, 3}, {2}, {1, 2});
  expect_every_tree_runs(Case({q, k, q}, 2, Results::all, 8), true);
}

TEST(Execution, PlansAndTheirAlternatives) {
  const Profile profile = default_profile();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomStream random(seed);
    const format::Shape layer =
        test::random_layer(2 + static_cast<int>(seed % 4), {1, 2, 3}, {1, 2, 3, 5}, random);
    Case c({layer}, test::pick({1, 2, 9}, random), test::random_results(random), seed);
    for (const Goal goal : {Goal::multiply_adds, Goal::bytes, Goal::time, Goal::memory}) {
      c.request.goal = goal;
      SCOPED_TRACE(fmt::format("seed {} {}", seed, to_string(goal)));
      c.expect_runs(make_plan(c.request, profile));
    }
    for (const auto& [name, plan] : alternatives(c.request, profile)) {
      SCOPED_TRACE(fmt::format("seed {} {}", seed, name));
      if (name != "dense") {
        c.expect_runs(plan);
        continue;
      }
      validate(plan, "dense");
      const auto adds = c.request.tokens * layer.rows * layer.cols;
      EXPECT_EQ(plan.total_multiply_adds, adds * (1 + std::popcount(plan.network.wanted)));
    }
  }
}

// Copies only where a product cannot run on what is there.
TEST(Execution, OrdinaryOrdersCopyNothing) {
  Request request{{format::tt({12, 8, 8}, {8, 8, 12}, {30})}, 64};
  const auto copies = [&](const Tree& tree, bool backward) {
    std::string text;
    for (const Step& step : plan_tree(request, tree, default_profile()).steps)
      if (step.backward == backward && (step.copy_left || step.copy_right || step.copy_result))
        text += "copy ";
    return text;
  };
  EXPECT_EQ(copies(two_group_tree(6, 3), false) + copies(two_group_tree(6, 3), true), "");
  EXPECT_EQ(copies(core_by_core_tree(6), false), "") << "batched over the tokens instead";
}
