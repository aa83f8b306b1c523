#include "problem.h"

#include <comera/base/error.h>
#include <comera/rank/controller.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace comera::rank {
namespace {

using test::Problem;

std::int64_t count(const std::vector<Event>& events, EventKind kind) {
  return std::count_if(events.begin(), events.end(), [&](const Event& event) { return event.kind == kind; });
}

void expect_same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << "tensor " << i;
}

const weights::Dependencies kMortal{{"first", "second"}, {{"second", {"first"}}}};
constexpr std::int64_t kSmallest = 3 * 17, kSmallestWithDeath = 17;

TEST(Controller, SizeTargetIsMetHoweverHostileTheRun) {
  const std::int64_t start = Problem().size();
  for (const bool may_die : {false, true})
    for (const std::int64_t target :
         {kSmallestWithDeath, kSmallest, kSmallest + 1, start / 2, start, 2 * start})
      for (const std::int64_t total : {1, 2, 30})
        for (const double early_end : {0.2, 1.0})
          for (const bool to_the_end : {true, false}) {
            if (target < kSmallest && !may_die) continue;
            SCOPED_TRACE(fmt::format("target {} of {}, {} steps, early_end {}, may_die {}, to the end {}",
                                     target, start, total, early_end, may_die, to_the_end));
            Problem problem;
            const bool with_probe = may_die || total == 2;
            Controller ranks(problem.weights,
                             {.target_parameters = target,
                              .early_end = early_end,
                              .cut_every = total == 30 ? 5 : 1,
                              .layers_may_die = may_die},
                             with_probe ? problem.probe() : Probe{}, kMortal);
            const std::int64_t last = to_the_end ? total : std::max<std::int64_t>(1, total / 2);
            auto events = problem.run(ranks, 1, last, total);
            for (const Event& event : ranks.finish(last, *problem.optimiser)) events.push_back(event);
            EXPECT_LE(problem.size(), target);
            EXPECT_EQ(ranks.size(), problem.size());
            EXPECT_EQ(ranks.stage(), Stage::fixed);
            EXPECT_EQ(count(events, EventKind::target), 1);
            for (const torch::Tensor& value : problem.values())
              EXPECT_TRUE(torch::isfinite(value).all().item<bool>());
            EXPECT_EQ(problem.optimiser->bytes(), 2 * 8 * problem.size());
          }
}

TEST(Controller, BytesAreATargetToo) {
  Problem problem(torch::kFloat);
  Controller ranks(problem.weights, {.target_bytes = 4 * 100 + 3});
  EXPECT_EQ(ranks.target_size(), 100);
  problem.run(ranks, 1, 30, 30);
  EXPECT_LE(problem.size(), 100);
}

TEST(Controller, RefusesWhatCannotBe) {
  const Problem problem;
  const auto message_of = [&](Options options, Probe probe = {}, weights::Dependencies dependencies = {}) {
    try {
      Controller(problem.weights, options, probe, dependencies);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message_of({.target_parameters = kSmallest - 1}).find("smallest model, 51 parameters"),
            std::string::npos);
  EXPECT_NE(message_of({.target_bytes = 8 * kSmallest - 1}).find("408 bytes"), std::string::npos);
  EXPECT_NE(message_of({.target_parameters = kSmallestWithDeath - 1, .layers_may_die = true}, problem.probe(),
                       kMortal)
                .find("smallest model, 17 parameters"),
            std::string::npos);
  EXPECT_NE(message_of({.target_loss = 1.0}).find("probe"), std::string::npos);
  EXPECT_NE(message_of({.layers_may_die = true}).find("probe"), std::string::npos);
  EXPECT_NE(
      message_of({.layers_may_die = true}, problem.probe(), {{"secnd"}, {}}).find("did you mean second"),
      std::string::npos);
  auto twice = problem.weights;
  twice.push_back(twice[0]);
  EXPECT_THROW(Controller(twice, Options{}), Error);
  EXPECT_THROW(Controller({}, Options{}), Error);
  Controller ranks(problem.weights, {});
  ranks.after_step({.step = 5, .progress = 0.5, .loss = 1}, *problem.optimiser);
  EXPECT_THROW(ranks.after_step({.step = 5, .progress = 0.6, .loss = 1}, *problem.optimiser), Error);
  EXPECT_THROW(ranks.after_step({.step = 6, .progress = 0.4, .loss = 1}, *problem.optimiser), Error);
}

TEST(Controller, CuttingZeroRanksLeavesTheFunctionAsItWas) {
  Problem problem(torch::kFloat, 0.0, 0.0);  // nothing moves by itself
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, weight] : problem.weights)
      for (const auto& scale : weight.scales()) scale.slice(0, 1, scale.size(0), 2).zero_();
  }
  Controller ranks(problem.weights, {.gamma = 1.0, .cut_every = 25});
  const torch::Tensor before = problem.loss(problem.held_out_x, problem.held_out_y);
  std::vector<torch::Tensor> matrices;
  for (const auto& [name, weight] : problem.weights)
    matrices.push_back(weights::materialize(weight).detach());
  const auto events = problem.run(ranks, 25, 74, 100);
  EXPECT_EQ(count(events, EventKind::cut), 3);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto& weight = problem.weights[i].weight;
    EXPECT_EQ(weight.shape().ranks, (std::vector<std::int64_t>{1, 2, 4, 2, 1}));
    EXPECT_LE((weights::materialize(weight) - matrices[i]).norm().item<double>(),
              1e-6 * matrices[i].norm().item<double>());
  }
}

TEST(Controller, CutsOnlyAfterTwentyStepsAtZero) {
  Problem problem(torch::kFloat, 0.0, 0.0);
  {
    const torch::NoGradGuard no_grad;
    problem.weights[0].weight.scales()[1][3].zero_();
  }
  Controller ranks(problem.weights, {.gamma = 1.0, .price_from = 0, .price_full = 0, .cut_every = 1});
  EXPECT_TRUE(problem.run(ranks, 1, 19, 100).empty());
  const auto events = problem.run(ranks, 20, 20, 100);
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].new_ranks, (std::vector<std::int64_t>{4, 7, 4}));
  EXPECT_EQ(to_string(events[0]), "step 20 cut first: ranks 4,8,4 -> 4,7,4, 695 parameters left");
  EXPECT_EQ(to_json(events[0])["new_ranks"], Json({4, 7, 4}));
}

TEST(Controller, PricesCutRanksAndGammaZeroCutsNone) {
  for (const double gamma : {0.0, 0.3}) {
    Problem problem;
    const std::int64_t start = problem.size();
    Controller ranks(problem.weights, {.gamma = gamma, .cut_every = 20});
    problem.run(ranks, 1, 400, 400);
    if (gamma == 0)
      EXPECT_EQ(problem.size(), start);
    else
      EXPECT_LT(problem.size(), start / 2);
    EXPECT_LT(problem.probe().loss(), 0.2);
  }
}

TEST(Controller, NoPriceWhenTheTargetIsAlreadyMet) {
  Problem problem;
  const std::int64_t start = problem.size();
  Controller ranks(problem.weights, {.gamma = 5.0, .target_parameters = start * 3 / 4, .cut_every = 5});
  problem.run(ranks, 1, 300, 300);
  EXPECT_LE(problem.size(), start * 3 / 4);
  EXPECT_GT(problem.size(), start / 2);
}

// The late stage must not make size so dear that it shrinks the ranks that the target leaves.
TEST(Controller, ASizeTargetAloneKeepsWhatWasLearned) {
  Problem problem;
  const std::int64_t start = problem.size();
  Controller ranks(problem.weights, {.gamma = 0.05, .target_parameters = start / 2, .cut_every = 20},
                   problem.probe());
  problem.run(ranks, 1, 240, 400);
  const double before = problem.probe().loss();
  problem.run(ranks, 241, 400, 400);
  EXPECT_LE(problem.size(), start / 2);
  EXPECT_LT(problem.probe().loss(), before + 0.02);
}

TEST(Controller, GradientsOfTheTermsAreThoseOfAutograd) {
  for (const Rule rule : {Rule::count_prices, Rule::published}) {
    Problem problem;
    Controller ranks(problem.weights, {.rule = rule, .gamma = 0.7, .price_from = 0, .price_full = 0});
    problem.run(ranks, 1, 3, 100);
    const auto gradients = [&] {
      std::vector<torch::Tensor> result;
      for (const auto& parameter : problem.optimiser->parameters().parameters())
        result.push_back(parameter.tensor.grad().clone());
      return result;
    };
    problem.optimiser->zero_gradients();
    ranks.before_step();
    const auto direct = gradients();
    problem.optimiser->zero_gradients();
    ranks.penalised(torch::zeros({}, torch::kDouble)).backward();
    const auto automatic = gradients();
    double size = 0;
    for (std::size_t i = 0; i < direct.size(); ++i) {
      EXPECT_TRUE(torch::allclose(direct[i], automatic[i], 1e-12, 1e-14)) << i;
      size += direct[i].abs().sum().item<double>();
    }
    EXPECT_GT(size, 0);
  }
}

TEST(Controller, PublishedRuleCutsAtItsThreshold) {
  Problem problem(torch::kDouble, 0.0, 0.0);
  {
    const torch::NoGradGuard no_grad;
    problem.weights[2].weight.scales()[1][2].fill_(-0.009);
    problem.weights[2].weight.scales()[1][3].fill_(0.011);
  }
  Controller ranks(problem.weights,
                   {.rule = Rule::published, .gamma = 1.0, .price_from = 0, .price_full = 0, .cut_every = 2});
  problem.run(ranks, 1, 2, 100);
  EXPECT_EQ(problem.weights[2].weight.shape().ranks, (std::vector<std::int64_t>{1, 4, 7, 4, 1}));
  EXPECT_EQ(problem.weights[0].weight.shape().ranks, (std::vector<std::int64_t>{1, 4, 8, 4, 1}));
}

TEST(Controller, KeepsCuttingWhileTheHeldOutLossAllows) {
  Problem problem;
  const std::int64_t start = problem.size();
  Controller ranks(problem.weights, {.gamma = 0.0, .target_loss = 0.15, .cut_every = 10}, problem.probe());
  const auto events = problem.run(ranks, 1, 400, 400);
  EXPECT_LT(problem.size(), start / 2);
  EXPECT_LE(problem.probe().loss(), 0.15);
  EXPECT_NE(events.back().text.find("met"), std::string::npos);
  EXPECT_GT(count(events, EventKind::forced_cut), 0);
}

TEST(Controller, ALossOutOfReachForcesNoCut) {
  Problem problem;
  const std::int64_t start = problem.size();
  Controller ranks(problem.weights, {.gamma = 0.0, .target_loss = 1e-9, .cut_every = 5}, problem.probe());
  const auto events = problem.run(ranks, 1, 50, 50);
  EXPECT_EQ(problem.size(), start);
  EXPECT_NE(events.back().text.find("not met"), std::string::npos);
}

// All rank scales of the layer are equal and get no gradient: a tie in every bond.
TEST(Controller, ALayerThatDoesNothingDiesWithItsSource) {
  for (const bool may_die : {true, false}) {
    Problem problem;
    {
      const torch::NoGradGuard no_grad;
      for (const auto& core : problem.weights[1].weight.cores()) core.zero_();
    }
    Controller ranks(problem.weights, {.gamma = 0.05, .layers_may_die = may_die}, problem.probe(), kMortal);
    const auto events = problem.run(ranks, 1, 300, 300);
    EXPECT_EQ(count(events, EventKind::death), may_die ? 2 : 0);
    EXPECT_EQ(problem.weights[0].weight.shape().dead(), may_die);
    EXPECT_EQ(problem.weights[1].weight.shape().dead(), may_die);
    EXPECT_EQ(problem.weights[1].weight.shape().ranks, may_die ? (std::vector<std::int64_t>{1, 0, 0, 0, 1})
                                                               : (std::vector<std::int64_t>{1, 1, 1, 1, 1}));
    EXPECT_FALSE(problem.weights[2].weight.shape().dead());
    EXPECT_LT(problem.probe().loss(), 0.2);
  }
}

TEST(Controller, ProbesLeaveNoTrace) {
  Problem problem;
  std::vector<std::vector<torch::Tensor>> seen;
  std::vector<std::uint64_t> geometry;
  Probe probe{[&] {
    seen.push_back(problem.values());
    for (const auto& [name, weight] : problem.weights) geometry.push_back(weight.geometry_version());
    return problem.probe().loss();
  }};
  const auto before = problem.values();
  Controller ranks(
      problem.weights,
      {.gamma = 0.0, .target_parameters = problem.size(), .price_from = 0, .price_full = 0, .early_end = 0},
      probe);
  ranks.after_step({.step = 1, .progress = 0.5, .loss = 1}, *problem.optimiser);
  EXPECT_GT(seen.size(), 4);
  expect_same_bits(problem.values(), before);
  for (std::size_t i = 1; i < geometry.size(); ++i) EXPECT_EQ(geometry[i], geometry[0]);
}

TEST(Controller, ResumesBitForBitAcrossCuts) {
  constexpr std::int64_t kTotal = 120;
  const Options options{.gamma = 0.5, .target_parameters = 300, .cut_every = 10, .layers_may_die = true};
  Problem whole(torch::kFloat);
  Controller reference(whole.weights, options, whole.probe(), kMortal);
  whole.run(reference, 1, kTotal, kTotal);
  for (const std::int64_t stop : {1, 35, 71, 95, 119}) {
    SCOPED_TRACE(stop);
    Problem first(torch::kFloat);
    Controller ranks(first.weights, options, first.probe(), kMortal);
    first.run(ranks, 1, stop, kTotal);
    const auto through_text = [](weights::SavedState state) {
      for (auto& [name, tensor] : state.tensors) tensor = tensor.clone();
      state.values = parse_json(state.values.dump(), "saved");
      return state;
    };
    const auto saved_optimiser = through_text(first.optimiser->save()),
               saved_ranks = through_text(ranks.save());

    Problem second(torch::kFloat);
    for (std::size_t i = 0; i < second.weights.size(); ++i)
      second.weights[i].weight.replace(first.weights[i].weight.cores(), first.weights[i].weight.scales());
    second.make_optimiser(1e-2, 2e-2);
    second.optimiser->load(saved_optimiser);
    Controller resumed(second.weights, options, second.probe(), kMortal);
    resumed.load(saved_ranks);
    EXPECT_EQ(resumed.start_size(), ranks.start_size());
    second.run(resumed, stop + 1, kTotal, kTotal);
    expect_same_bits(second.values(), whole.values());
    EXPECT_EQ(resumed.save().values, reference.save().values);
  }
}

TEST(Controller, RefusesAStateThatDoesNotFit) {
  Problem problem;
  Controller ranks(problem.weights, {.gamma = 0.5});
  const weights::SavedState good = ranks.save();
  const auto refused = [&](auto change) {
    weights::SavedState bad = good;
    change(bad);
    EXPECT_THROW(ranks.load(bad), Error);
  };
  refused([](auto& state) { state.tensors.clear(); });
  refused([](auto& state) { state.tensors[0].second = torch::zeros({3}); });
  refused([](auto& state) { state.values["ranks"]["first"] = {4, 7, 4}; });
  refused([](auto& state) { state.values["ranks"].erase("side"); });
  refused([](auto& state) { state.values["target_size"] = 77; });
  refused([](auto& state) { state.values["memory"]["stage"] = 9; });
  refused([](auto& state) { state.values["memory"]["live"] = {1}; });
  refused([](auto& state) { state.values["memory"].erase("late"); });
  refused([](auto& state) { state.values = 5; });
  ranks.load(good);
}

TEST(Controller, BitsDoNotDependOnThreads) {
  const int threads = torch::get_num_threads();
  std::vector<std::vector<torch::Tensor>> results;
  for (const int count : {1, 3}) {
    torch::set_num_threads(count);
    Problem problem(torch::kFloat);
    Controller ranks(problem.weights, {.gamma = 0.5, .target_parameters = 300, .cut_every = 10},
                     problem.probe());
    problem.run(ranks, 1, 60, 60);
    results.push_back(problem.values());
  }
  torch::set_num_threads(threads);
  expect_same_bits(results[1], results[0]);
}

}  // namespace
}  // namespace comera::rank
