#include "interpreter.h"
#include "random_layers.h"

#include <comera/base/error.h>
#include <comera/plan/memory.h>
#include <comera/plan/plan.h>
#include <comera/plan/search.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

using namespace comera;
using namespace comera::plan;

namespace {

const format::Shape kAttention = format::tt({12, 8, 8}, {8, 8, 12}, {30});

Request attention(std::int64_t tokens) { return {{kAttention}, tokens}; }

const Plan& named(const NamedPlans& plans, const std::string& name) {
  for (const auto& [own, plan] : plans)
    if (own == name) return plan;
  throw Error("no plan " + name);
}

}  // namespace

TEST(Plan, TheGoalIsReached) {
  const Profile profile = default_profile();
  for (const std::int64_t tokens : {1, 16, 64, 1024, 16'384}) {
    SCOPED_TRACE(tokens);
    Request request = attention(tokens);
    const Plan time = make_plan(request, profile);
    const auto others = alternatives(request, profile);
    request.goal = Goal::multiply_adds;
    const Plan adds = make_plan(request, profile);
    request.goal = Goal::bytes;
    const Plan bytes = make_plan(request, profile);
    for (const auto& [name, plan] : others) {
      if (name == "dense") continue;
      EXPECT_LE(time.predicted_seconds, plan.predicted_seconds * (1 + 1e-12)) << name;
      EXPECT_LE(adds.total_multiply_adds, plan.total_multiply_adds) << name;
      EXPECT_LE(bytes.bytes_moved, plan.bytes_moved) << name;
    }
    EXPECT_EQ(adds.total_multiply_adds, adds.forward + adds.backward);
    EXPECT_EQ(adds.backward, 2 * adds.forward);
  }
}

TEST(Plan, FiguresOfTheSearchAreThoseOfThePlan) {
  const Profile profile = default_profile();
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    Request request{
        {test::random_layer(2 + static_cast<int>(seed % 5), {1, 2, 5, 16}, {1, 2, 9, 30}, random)},
        test::pick({1, 3, 64, 5000}, random),
        test::random_results(random)};
    const Network network = layer_network(request.layers, request.tokens, request.results);
    const PredictedTime time(profile, DType::float32);
    const Found found = TreeSearch(network, time).cheapest();
    const Plan plan = make_plan(request, profile);
    EXPECT_EQ(plan.tree, found.tree);
    EXPECT_NEAR(plan.predicted_seconds, found.cost, 1e-12 * found.cost);
    const MemoryChoice choice = everything_saved(network, found.tree, time, time, 4);
    EXPECT_EQ(static_cast<double>(plan.peak_bytes), choice.peak);
    request.goal = Goal::memory;
    EXPECT_LE(make_plan(request, profile).peak_bytes, plan.peak_bytes);
  }
}

TEST(Plan, AlternativesByHand) {
  Request request = attention(64);
  request.goal = Goal::multiply_adds;
  const auto others = alternatives(request, default_profile());
  const double in = 768, out = 768, tokens = 64;
  EXPECT_EQ(named(others, "dense").total_multiply_adds, 3 * tokens * in * out);
  EXPECT_EQ(named(others, "dense").saved_bytes, 0);
  EXPECT_EQ(named(others, "two groups").total_multiply_adds, 13'201'920);
  EXPECT_GT(named(others, "W rebuilt").total_multiply_adds, 3 * tokens * in * out);
  // Each of the eight results alone: at least as much as its share of a plan that shares nothing.
  const Plan& alone = named(others, "each alone");
  EXPECT_EQ(alone.steps.size(), 8u * 6);
  EXPECT_FALSE(alone.tree);
  EXPECT_TRUE(alone.saved.empty());
  EXPECT_GT(alone.total_multiply_adds, make_plan(request, default_profile()).total_multiply_adds);
}

TEST(Plan, TheKeyIsAllThatIsAskedFor) {
  const Request request = attention(64);
  std::set<std::uint64_t> hashes{hash(request)};
  EXPECT_EQ(hash(request), hash(attention(64)));
  const auto differs = [&](const auto& edit) {
    Request other = attention(64);
    edit(other);
    EXPECT_FALSE(other == request);
    EXPECT_TRUE(hashes.insert(hash(other)).second);
  };
  differs([](Request& r) { r.tokens = 96; });
  differs([](Request& r) { r.layers = {format::tt({12, 8, 8}, {8, 8, 12}, {29})}; });
  differs([](Request& r) { r.layers.push_back(r.layers[0]); });
  differs([](Request& r) { r.dtype = DType::float64; });
  differs([](Request& r) { r.device = "cuda"; });
  differs([](Request& r) { r.goal = Goal::bytes; });
  differs([](Request& r) { r.memory_limit = 1 << 20; });
  differs([](Request& r) { r.results = Results::without_input; });
}

TEST(Plan, EqualRequestsGiveEqualPlans) {
  EXPECT_EQ(make_plan(attention(100), default_profile()), make_plan(attention(100), default_profile()));
}

TEST(Plan, WhatCannotBePlannedIsRefused) {
  const Profile profile = default_profile();
  const std::int64_t large = std::int64_t{1} << 28;
  // Every leaf is small enough, but the multiply-adds are not.
  EXPECT_THROW(make_plan({{format::tt({1 << 20}, {1 << 20}, {1 << 20})}, std::int64_t{1} << 38}, profile),
               Error);
  EXPECT_THROW(make_plan(attention(large * large), profile), Error);
  EXPECT_THROW(make_plan(attention(0), profile), Error);
  Request negative = attention(1);
  negative.memory_limit = -1;
  EXPECT_THROW(make_plan(negative, profile), Error);
  Profile broken = profile;
  broken.bandwidth = 0;
  EXPECT_THROW(make_plan(attention(1), broken), Error);
  EXPECT_THROW(plan_tree(attention(1), core_by_core_tree(5), profile), Error);
  EXPECT_THROW(plan_tree(attention(1), core_by_core_tree(6), 1u << 5, profile), Error);
  // Whatever the goal, an answer for the extreme that does fit.
  for (const Goal goal : {Goal::multiply_adds, Goal::bytes, Goal::time, Goal::memory}) {
    Request request{{format::tt({1 << 10}, {1 << 10}, {1000})},
                    100'000'000'000,
                    Results::all,
                    DType::float32,
                    "cpu",
                    goal};
    validate(make_plan(request, profile), "extreme");
  }
}

TEST(Plan, TheTableNamesEverything) {
  const Request request = attention(64);
  const Plan plan = make_plan(request, default_profile());
  const std::string text = to_string(plan, alternatives(request, default_profile()));
  for (const char* part : {"TT 12,8,8 x 8,8,12", "64 tokens", "dG6", "saved", "two groups", "core by core",
                           "W rebuilt", "each alone", "dense", "12510720"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("would be faster"), std::string::npos);
  // At rank 200 on few tokens the dense layer wins, and the table says so.
  const Request poor{{format::tt({8, 8}, {8, 8}, {64})}, 16};
  EXPECT_NE(to_string(make_plan(poor, default_profile()), alternatives(poor, default_profile()))
                .find("dense layer would be faster"),
            std::string::npos);
}

TEST(Plan, TheTreeIsDrawn) {
  const Request request = attention(64);
  const Plan plan = make_plan(request, default_profile());
  const std::string svg = draw_svg(plan);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1))
    ++circles;
  EXPECT_EQ(circles, 8u + 6u);
  for (const char* part : {">X<", ">dY<", ">G4<", "b=64", "r3=30"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_THROW(draw_svg(plan_separately(request, default_profile())), Error);
}

TEST(PlanJson, ComesBackAsItWas) {
  const Profile profile = default_profile();
  Request request = attention(64);
  std::vector<Plan> plans{make_plan(request, profile)};
  for (const auto& [name, plan] : alternatives(request, profile)) plans.push_back(plan);
  request.goal = Goal::memory;
  plans.push_back(make_plan(request, profile));
  request.layers = {kAttention, kAttention, kAttention};
  plans.push_back(make_plan(request, profile));
  request.layers = {format::tt({2, 2, 2}, {2, 2, 2, 2}, {3})};
  request.results = Results::forward;
  plans.push_back(make_plan(request, profile));
  for (const Plan& plan : plans) {
    const Json json = to_json(plan, alternatives(plan.request, profile));
    for (const char* key : {"total_multiply_adds", "forward", "backward", "peak_bytes", "saved_bytes",
                            "predicted_seconds", "alternatives"})
      EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["alternatives"].size(), 5u);
    EXPECT_EQ(plan_from_json(parse_json(json.dump(), "p.json"), "p.json"), plan);
  }
}

namespace {

// All places of a document.
void collect(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>* places) {
  places->push_back(at);
  if (json.is_object())
    for (const auto& [key, value] : json.items()) collect(value, at / key, places);
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) collect(json[i], at / i, places);
}

Json other_value(const Json& value, RandomStream& random) {
  switch (random.below(9)) {
    case 0:
      return nullptr;
    case 1:
      return value.is_number_integer() ? Json(value.get<std::int64_t>() + 1) : Json(-1);
    case 2:
      return value.is_number_integer() ? Json(value.get<std::int64_t>() - 1) : Json(1);
    case 3:
      return std::numeric_limits<std::int64_t>::max();
    case 4:
      return Json::array();
    case 5:
      return value.is_boolean() ? Json(!value.get<bool>()) : Json("b");
    case 6:
      return std::vector<Json>{"m1", "r1", "G1", "time", "all"}[random.below(5)];
    case 7:
      return std::uint64_t{1} << 63;
    default:
      return static_cast<std::int64_t>(random.below(12));
  }
}

}  // namespace

// One value changed at a time: an Error of one line that names the file, or still a plan that gives the
// results.
TEST(PlanJson, HostileOnesAreRefusedOrRun) {
  Request request{{format::tt({2, 3}, {2, 2}, {2, 3, 2})}, 3};
  request.goal = Goal::memory;
  RandomStream random(20);
  int accepted = 0, refused = 0;
  for (const Plan& plan :
       {make_plan(request, default_profile()), plan_separately(request, default_profile())}) {
    const Json good = to_json(plan);
    std::vector<Json::json_pointer> places;
    collect(good, Json::json_pointer(), &places);
    for (const auto& place : places)
      for (int round = 0; round < 3; ++round) {
        Json bad = good;
        bad[place] = other_value(good[place], random);
        if (bad == good) continue;
        SCOPED_TRACE(fmt::format("{} = {}", place.to_string(), bad[place].dump()));
        Plan read;
        try {
          read = plan_from_json(bad, "p.json");
        } catch (const Error& error) {
          const std::string text = error.what();
          EXPECT_TRUE(text.starts_with("p.json")) << text;
          EXPECT_EQ(text.find('\n'), std::string::npos) << text;
          ++refused;
          continue;
        }
        ++accepted;
        const auto leaves = test::random_leaves(read.network, random);
        test::Interpreter interpreter(read, leaves);
        interpreter.run();
        EXPECT_EQ(interpreter.multiply_adds(), read.total_multiply_adds);
        EXPECT_EQ(interpreter.peak(), read.peak_bytes);
        for (int leaf = 0; leaf < read.network.size(); ++leaf) {
          if (read.results[leaf] < 0) continue;
          const auto expected = test::direct_gradient(read.network, leaves, leaf);
          const auto& actual = interpreter.result(leaf);
          ASSERT_EQ(actual.size(), expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-9);
        }
      }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 5) << "device, names, limits";
}
