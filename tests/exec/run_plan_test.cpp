#include <comera/base/error.h>
#include <comera/exec/linear.h>
#include <comera/exec/run_plan.h>
#include <comera/ops/implementation.h>
#include <comera/plan/memory.h>

#include <allocation_probe.h>
#include <gtest/gtest.h>
#include <tolerance.h>

using namespace comera;
using namespace comera::test;
using plan::Goal, plan::Plan, plan::Request, plan::Results, plan::Tree;

namespace {

torch::Tensor random(torch::IntArrayRef sizes, std::uint64_t seed, torch::ScalarType type = torch::kFloat64) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator).to(test_device(), type);
}

exec::SharedPlan shared(Plan plan) { return std::make_shared<const Plan>(std::move(plan)); }

// A layer, or several that run as one, with values and what must come out.
struct Case {
  Request request;
  torch::Tensor x, dy, y;
  std::vector<torch::Tensor> inputs, gradients;  // of the cores, then x

  Case(std::vector<format::Shape> layers, std::int64_t tokens, Results results, std::uint64_t seed) {
    request.layers = std::move(layers);
    request.tokens = tokens;
    request.results = results;
    request.dtype = plan::DType::float64;
    const plan::Network network = plan::layer_network(request.layers, tokens, results);
    const auto sizes = [&](int leaf) {
      std::vector<std::int64_t> list;
      for (std::size_t i = 0; i < network.indices.size(); ++i)
        if (network.leaves[leaf].indices >> i & 1) list.push_back(network.indices[i].size);
      return list;
    };
    for (int leaf = 1; leaf < network.root(); ++leaf)
      inputs.push_back(random(sizes(leaf), seed + leaf).requires_grad_(results != Results::forward));
    x = random(sizes(0), seed).reshape({tokens, -1}).detach().requires_grad_(results == Results::all);
    dy = random(sizes(network.root()), seed + 100).reshape({tokens, -1});
    const auto any = shared(plan::make_plan(request, plan::default_profile(request.dtype)));
    y = exec::reference::run_plan(any, x, inputs);
    if (results == Results::all) inputs.push_back(x);
    if (results != Results::forward) gradients = torch::autograd::grad({y}, inputs, {dy});
    y = y.detach();
  }

  void expect_runs(const Plan& one) const {
    const auto plan = shared(one);
    const std::vector<torch::Tensor> cores(inputs.begin(), inputs.begin() + plan->network.size() - 2);
    std::int64_t multiply_adds = 0;
    AllocationProbe probe;
    auto actual = exec::run_plan(plan, x, cores, [&](const plan::Step& step, std::int64_t count) {
      EXPECT_EQ(count, step.multiply_adds);
      multiply_adds += count;
    });
    if (test_device().is_cpu()) {
      EXPECT_EQ(probe.counts().peak_bytes, plan->forward_peak_bytes);
    }
    EXPECT_TRUE(close(actual, y, 1e-12, "y"));
    if (!gradients.empty()) {
      const std::int64_t output = actual.numel() * 8;
      probe.restart_peak();
      const auto found = torch::autograd::grad({actual}, inputs, {dy});
      if (test_device().is_cpu()) {
        EXPECT_EQ(probe.counts().peak_bytes, std::max(plan->backward_peak_bytes, plan->saved_bytes) + output);
      }
      for (std::size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE(close(found[i], gradients[i], 1e-11, fmt::format("gradient {}", i)));
    }
    EXPECT_EQ(multiply_adds, plan->total_multiply_adds);
  }
};

// Every tree with everything saved, copies chosen by each goal; with `choices` also every choice of what is
// saved.
void expect_every_tree_runs(const Case& c, bool choices) {
  const auto profile = plan::default_profile(c.request.dtype);
  const plan::Network network = plan::layer_network(c.request.layers, c.request.tokens, c.request.results);
  const plan::Openings openings(network);
  plan::for_each_tree(network.size(), [&](const Tree& tree) {
    SCOPED_TRACE(plan::to_string(tree, network));
    for (const Goal goal : {Goal::time, Goal::memory}) {
      Request request = c.request;
      request.goal = goal;
      c.expect_runs(plan::plan_tree(request, tree, profile));
    }
    if (!choices) return;
    const plan::MultiplyAdds adds;
    const plan::TreeMemory memory(network, openings, tree, adds, adds, 8);
    for (std::uint32_t saved = 0; saved < 1u << (tree.nodes.size() - 1); ++saved) {
      if (!memory.sensible(saved)) continue;
      SCOPED_TRACE(fmt::format("saved {:b}", saved));
      c.expect_runs(plan::plan_tree(c.request, tree, saved, profile));
    }
  });
}

weights::TensorTrain random_weight(format::Shape shape, std::uint64_t seed) {
  weights::TensorTrain weight(std::move(shape), torch::TensorOptions(torch::kFloat64).device(test_device()));
  const torch::NoGradGuard no_grad;
  for (auto& core : weight.cores()) core.copy_(random(core.sizes(), seed++));
  for (auto& scale : weight.scales()) scale.copy_(random(scale.sizes(), seed++));
  return weight;
}

Request request_of(const format::Shape& shape, std::int64_t tokens) {
  Request request{{shape}, tokens};
  request.dtype = plan::DType::float64;
  return request;
}

Plan planned(const format::Shape& shape, std::int64_t tokens) {
  return plan::make_plan(request_of(shape, tokens), plan::default_profile(plan::DType::float64));
}

}  // namespace

class RunPlan : public testing::Test {
 protected:
  void SetUp() override {
    if (ops::use_reference()) GTEST_SKIP() << "no plan runs under COMERA_IMPL=reference";
  }
};

TEST_F(RunPlan, EveryTreeOfTwoAndThreeCores) {
  for (const Results results : {Results::forward, Results::without_input, Results::all}) {
    expect_every_tree_runs(Case({format::tt({3}, {4}, {2})}, 5, results, 1), true);
    expect_every_tree_runs(Case({format::tt({2, 3}, {4}, {3, 2})}, 3, results, 2), true);
    expect_every_tree_runs(Case({format::tt({2}, {3, 2}, {1, 5, 2, 1})}, 1, results, 3), true);
    expect_every_tree_runs(Case({format::tt({5, 7}, {11}, {4, 9})}, 40, results, 4), true);
  }
}

TEST_F(RunPlan, EveryTreeOfFourCores) {
  expect_every_tree_runs(Case({format::tt({2, 3}, {2, 2}, {2, 3, 2})}, 3, Results::all, 5), true);
  expect_every_tree_runs(Case({format::tt({3, 2, 2}, {2}, {2, 1, 3})}, 2, Results::without_input, 6), true);
  expect_every_tree_runs(Case({format::tt({1, 2}, {3, 1}, {2, 2, 4})}, 4, Results::forward, 7), false);
  expect_every_tree_runs(Case({format::tt({4, 5}, {6, 3}, {4, 7, 3})}, 17, Results::all, 8), true);
}

TEST_F(RunPlan, EveryTreeOfFiveCores) {
  expect_every_tree_runs(Case({format::tt({2, 2}, {2, 1, 2}, {2, 2, 1, 2})}, 2, Results::all, 9), false);
}

TEST_F(RunPlan, LayersThatRunAsOne) {
  const format::Shape q = format::tt({2, 3}, {2}, {2, 3}), k = format::tt({2, 3}, {2}, {1, 2});
  expect_every_tree_runs(Case({q, k, q}, 2, Results::all, 10), true);
}

TEST_F(RunPlan, PlansAndTheirAlternatives) {
  const auto profile = plan::default_profile(plan::DType::float64);
  const Case c({format::tt({4, 6}, {5, 4}, {4, 8, 4})}, 33, Results::all, 11);
  for (const Goal goal : {Goal::multiply_adds, Goal::bytes, Goal::time, Goal::memory}) {
    Request request = c.request;
    request.goal = goal;
    c.expect_runs(plan::make_plan(request, profile));
  }
  for (const auto& [name, other] : plan::alternatives(c.request, profile)) {
    SCOPED_TRACE(name);
    if (name != "dense") c.expect_runs(other);
  }
}

TEST_F(RunPlan, ADenseLayer) {
  const Request request = request_of(format::tt({4}, {6}, {2}), 5);
  for (const auto& [name, other] : plan::alternatives(request, plan::default_profile(plan::DType::float64))) {
    if (name != "dense") continue;
    const auto x = random({5, 4}, 1).requires_grad_(), w = random({4, 6}, 2).requires_grad_(),
               dy = random({5, 6}, 3);
    const auto y = exec::run_plan(shared(other), x, {w});
    EXPECT_TRUE(close(y, x.matmul(w), "y"));
    const auto found = torch::autograd::grad({y}, {x, w}, {dy});
    EXPECT_TRUE(close(found[0], dy.matmul(w.t()), "dx"));
    EXPECT_TRUE(close(found[1], x.t().matmul(dy), "dW"));
  }
}

TEST_F(RunPlan, FewerTokensThanPlanned) {
  const auto shape = format::tt({4, 3}, {2, 5}, {3, 6, 4});
  const auto plan = shared(planned(shape, 64));
  const auto weight = random_weight(shape, 40);
  for (const std::int64_t tokens : {2, 49, 64}) {
    const auto x = random({tokens, 12}, 41).requires_grad_();
    const auto y = exec::planned_linear(plan, x, weight, std::nullopt),
               expected = exec::tt_linear(x, weight, std::nullopt);
    EXPECT_TRUE(close(y, expected, "y"));
    const auto dy = random({tokens, 10}, 42);
    EXPECT_TRUE(close(torch::autograd::grad({y}, {x}, {dy})[0],
                      torch::autograd::grad({expected}, {x}, {dy})[0], "dx"));
  }
  const auto cores = weight.cores();
  EXPECT_THROW(exec::run_plan(plan, random({65, 12}, 43), cores), Error);
  EXPECT_THROW(exec::run_plan(plan, random({1, 12}, 44), cores), Error);
  EXPECT_THROW(exec::run_plan(plan, random({5, 11}, 45), cores), Error);
  EXPECT_THROW(exec::run_plan(plan, random({5, 12}, 46, torch::kFloat32), cores), Error);
  EXPECT_THROW(exec::run_plan(plan, random({5, 12}, 47), {cores[0], cores[1]}), Error);
  EXPECT_THROW(exec::run_plan(plan, random({5, 12}, 47), {cores[0], cores[1], cores[2], cores[0]}), Error);
}

TEST_F(RunPlan, ScalesPaddingBiasAndStridedInput) {
  format::Shape padded = format::tt({3, 4}, {2, 5}, {3, 4, 2});
  padded.rows = 11;
  padded.cols = 7;
  for (const auto& shape : {format::tt({3, 4}, {2, 5}, {3, 4, 2}), format::tt({6}, {10}, {4}), padded}) {
    SCOPED_TRACE(format::to_string(shape));
    const auto weight = random_weight(shape, 20);
    const auto bias = random({shape.cols}, 30).requires_grad_();
    const auto wide = random({2, 3, 2 * shape.rows}, 31).requires_grad_();
    const auto x = wide.slice(2, 0, 2 * shape.rows, 2);
    auto all = weight.cores();
    for (const auto& scale : weight.scales()) all.push_back(scale);
    all.insert(all.end(), {wide, bias});
    const auto plan = shared(planned(shape, 6));
    const auto dy = random({2, shape.cols, 3}, 32).transpose(1, 2);
    for (const bool with_bias : {true, false}) {
      const auto maybe = with_bias ? std::optional(bias) : std::nullopt;
      const auto y = exec::planned_linear(plan, x, weight, maybe),
                 expected = exec::tt_linear(x, weight, maybe);
      EXPECT_TRUE(close(y, expected, "y"));
      const auto found = torch::autograd::grad({y}, all, {dy}, {}, false, true),
                 wanted = torch::autograd::grad({expected}, all, {dy}, {}, false, true);
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_TRUE(close(found[i], wanted[i], fmt::format("gradient {}", i)));
    }
    const auto none = exec::planned_linear(plan, random({0, shape.rows}, 33), weight, bias);
    EXPECT_EQ(none.sizes(), (torch::IntArrayRef{0, shape.cols}));
    EXPECT_THROW(exec::planned_linear(plan, random({2, shape.rows + 1}, 34), weight, bias), Error);
  }
}

TEST_F(RunPlan, GradientsThatItDoesNotHave) {
  const auto shape = format::tt({3, 4}, {2, 5}, {3, 4, 2});
  const auto weight = random_weight(shape, 50);
  const auto x = random({6, 12}, 51).requires_grad_();
  Request request = request_of(shape, 6);
  request.results = Results::forward;
  const auto profile = plan::default_profile(plan::DType::float64);
  const auto forward = shared(plan::make_plan(request, profile));
  EXPECT_THROW(exec::run_plan(forward, x.detach(), weight.cores()), Error);
  request.results = Results::without_input;
  const auto without = shared(plan::make_plan(request, profile));
  EXPECT_THROW(exec::run_plan(without, x, weight.cores()), Error);
  {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(
        close(exec::run_plan(forward, x, weight.cores()), exec::run_plan(without, x, weight.cores()), "y"));
  }
  const auto y = exec::run_plan(shared(planned(shape, 6)), x, weight.cores());
  const auto dy = torch::ones_like(y);
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {dy}, true, true), Error) << "second derivative";
  const auto z = exec::run_plan(shared(planned(shape, 6)), x, weight.cores());
  const auto once = torch::autograd::grad({z}, {x}, {dy}, true)[0],
             twice = torch::autograd::grad({z}, {x}, {dy})[0];
  EXPECT_TRUE(torch::equal(once, twice));
  EXPECT_ANY_THROW(torch::autograd::grad({z}, {x}, {dy})) << "third backward of one forward";
}
