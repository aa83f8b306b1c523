#include <comera/base/error.h>
#include <comera/ops/implementation.h>
#include <comera/optim/adamw.h>

#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>

#include <gtest/gtest.h>

namespace comera::optim {
namespace {

// Several blocks of the flat pass, parameters that straddle their borders, an empty one and a scalar.
const std::vector<std::vector<std::int64_t>> kSizes = {{7}, {129, 130}, {0, 3}, {}, {40000}, {5, 2, 3}};

std::vector<torch::Tensor> make_parameters(torch::ScalarType type) {
  torch::manual_seed(17);
  std::vector<torch::Tensor> parameters;
  for (const auto& sizes : kSizes) parameters.push_back(torch::randn(sizes, type).requires_grad_());
  return parameters;
}

std::vector<Parameter> named(const std::vector<torch::Tensor>& tensors) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), tensors[i], i % 2 == 0 ? "cores" : "rest"});
  return parameters;
}

const std::vector<Group> kGroups = {{"cores", 3e-2, 0.1}, {"rest", 1e-2, 0.0}};

// The gradient of step t; the same for every optimiser.
void set_gradients(const std::vector<torch::Tensor>& parameters, int t) {
  torch::manual_seed(1000 + t);
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = torch::randn(parameter.sizes(), parameter.options().requires_grad(false));
    if (parameter.grad().defined())
      parameter.grad().copy_(gradient);
    else
      parameter.mutable_grad() = gradient;
  }
}

std::vector<torch::Tensor> copies(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& parameter : parameters) result.push_back(parameter.detach().clone());
  return result;
}

void expect_same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << "parameter " << i;
}

void compare_with_torch(torch::ScalarType type, double clip_norm, double tolerance) {
  const auto ours = make_parameters(type), theirs = make_parameters(type);
  AdamW optimiser(named(ours), kGroups, {.clip_norm = clip_norm});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (std::size_t g = 0; g < 2; ++g) {
    std::vector<torch::Tensor> members;
    for (std::size_t i = g; i < theirs.size(); i += 2) members.push_back(theirs[i]);
    groups.emplace_back(
        members,
        std::make_unique<torch::optim::AdamWOptions>(
            torch::optim::AdamWOptions(kGroups[g].learning_rate).weight_decay(kGroups[g].weight_decay)));
  }
  torch::optim::AdamW reference(groups);
  for (int t = 0; t < 20; ++t) {
    const double rate = 1e-2 * (1 + t % 3);
    optimiser.group("rest").learning_rate = rate;
    static_cast<torch::optim::AdamWOptions&>(reference.param_groups()[1].options()).lr(rate);
    set_gradients(ours, t);
    set_gradients(theirs, t);
    const double norm = optimiser.step().item<double>();
    const double expected = torch::nn::utils::clip_grad_norm_(theirs, clip_norm > 0 ? clip_norm : 1e9);
    EXPECT_NEAR(norm, expected, 1e-5 * expected);
    reference.step();
  }
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i], theirs[i], tolerance, tolerance)) << "parameter " << i;
}

TEST(AdamW, EqualsTorchInDouble) {
  compare_with_torch(torch::kDouble, 0, 1e-12);
  compare_with_torch(torch::kDouble, 2.5, 1e-12);
}
TEST(AdamW, EqualsTorchInFloat) { compare_with_torch(torch::kFloat, 2.5, 2e-6); }

TEST(AdamW, BitsDoNotDependOnThreads) {
  if (ops::use_reference()) GTEST_SKIP() << "the promise of the CPU path";
  std::vector<std::vector<torch::Tensor>> results;
  const int threads = torch::get_num_threads();
  for (const int count : {1, 2, 3, 5}) {
    torch::set_num_threads(count);
    const auto parameters = make_parameters(torch::kFloat);
    AdamW optimiser(named(parameters), kGroups, {.clip_norm = 1.0});
    std::vector<torch::Tensor> norms;
    for (int t = 0; t < 3; ++t) {
      set_gradients(parameters, t);
      norms.push_back(optimiser.step());
    }
    results.push_back(copies(parameters));
    results.back().insert(results.back().end(), norms.begin(), norms.end());
  }
  torch::set_num_threads(threads);
  for (const auto& result : results) expect_same_bits(result, results[0]);
}

TEST(AdamW, DecaysTheValueBeforeTheUpdate) {
  torch::Tensor parameter = torch::full({3}, 2.0, torch::kDouble).requires_grad_();
  AdamW optimiser({{"p", parameter, "all"}}, {{"all", 0.1, 0.5}});
  parameter.grad().fill_(1.0);
  optimiser.step();
  // 2 (1 - 0.1 0.5) - 0.1 g / |g|; decay of the updated value would give 1.805.
  EXPECT_NEAR(parameter[0].item<double>(), 1.8, 1e-8);
  optimiser.zero_gradients();
  EXPECT_EQ(parameter.grad().sum().item<double>(), 0);
}

TEST(AdamW, RateFactorMultipliesTheGroupsRate) {
  torch::Tensor a = torch::zeros({2}, torch::kDouble).requires_grad_(),
                b = a.detach().clone().requires_grad_();
  AdamW optimiser({{"a", a, "all", 0.5}, {"b", b, "all"}}, {{"all", 0.1}});
  EXPECT_DOUBLE_EQ(optimiser.learning_rate(a), 0.05);
  a.grad().fill_(1.0), b.grad().fill_(1.0);
  optimiser.step();
  EXPECT_NEAR(2 * a[0].item<double>(), b[0].item<double>(), 1e-9);
  optimiser.set_rate_factor(a, 2);
  EXPECT_DOUBLE_EQ(optimiser.learning_rate(a), 0.2);
}

TEST(AdamW, GradientThatIsNotFiniteChangesNothing) {
  const auto parameters = make_parameters(torch::kFloat);
  AdamW optimiser(named(parameters), kGroups, {.clip_norm = 1.0});
  set_gradients(parameters, 0);
  optimiser.step();
  const auto before = copies(parameters);
  const torch::Tensor moments = optimiser.denominators(parameters);
  set_gradients(parameters, 1);
  parameters[4].grad()[39999] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(optimiser.step().item<double>()));
  expect_same_bits(copies(parameters), before);
  EXPECT_EQ(optimiser.parameters().parameters()[4].tensor.grad()[0].item<float>(),
            parameters[4].grad()[0].item<float>());
}

TEST(AdamW, MicroBatchesEqualOneBatch) {
  const auto one = make_parameters(torch::kDouble), four = make_parameters(torch::kDouble);
  AdamW a(named(one), kGroups), b(named(four), kGroups);
  const torch::Tensor x = torch::randn({4, 129}, torch::kDouble);
  x.matmul(one[1]).square().mean().backward();
  for (int i = 0; i < 4; ++i) (x[i].matmul(four[1]).square().mean() / 4).backward();
  a.step(), b.step();
  EXPECT_TRUE(torch::allclose(one[1], four[1], 1e-12, 1e-12));
}

TEST(AdamW, ResumesBitForBit) {
  const auto whole = make_parameters(torch::kFloat);
  AdamW optimiser(named(whole), kGroups, {.clip_norm = 1.0});
  const auto run = [](AdamW& adamw, const std::vector<torch::Tensor>& parameters, int from, int to) {
    for (int t = from; t < to; ++t) {
      set_gradients(parameters, t);
      adamw.step();
    }
  };
  run(optimiser, whole, 0, 5);
  optimiser.group("cores").learning_rate = 0.123;
  optimiser.set_rate_factor(whole[2], 0.7);
  // Through text, as a checkpoint does; groups and parameters listed in another order.
  weights::SavedState saved = optimiser.save();
  for (auto& [name, tensor] : saved.tensors) tensor = tensor.clone();
  saved.values = parse_json(saved.values.dump(), "saved");
  auto resumed = copies(whole);
  for (torch::Tensor& tensor : resumed) tensor.requires_grad_();
  auto parameters = named(resumed);
  std::reverse(parameters.begin(), parameters.end());
  AdamW other(parameters, {kGroups[1], kGroups[0]}, {.clip_norm = 1.0});
  other.load(saved);
  EXPECT_EQ(other.steps(), 5);
  EXPECT_EQ(other.learning_rate(resumed[0]), 0.123);
  EXPECT_EQ(other.learning_rate(resumed[2]), 0.123 * 0.7);
  // The norm sums in the order of the parameters, so bits are asked for in the same order.
  AdamW same(named(resumed), kGroups, {.clip_norm = 1.0});
  same.load(saved);
  run(optimiser, whole, 5, 10);
  run(same, resumed, 5, 10);
  expect_same_bits(copies(resumed), copies(whole));
}

TEST(AdamW, RefusesAStateThatDoesNotFit) {
  const auto parameters = make_parameters(torch::kFloat);
  AdamW optimiser(named(parameters), kGroups);
  set_gradients(parameters, 0);
  optimiser.step();
  const weights::SavedState good = optimiser.save();
  const auto expect_refused = [&](auto change, const std::string& what) {
    weights::SavedState bad = good;
    change(bad);
    try {
      optimiser.load(bad);
      FAIL() << "accepted: " << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  expect_refused([](auto& state) { state.tensors.pop_back(); }, "holds 11 moments");
  expect_refused([](auto& state) { state.tensors[0].first = "first.q0"; }, "no first.p0");
  expect_refused([](auto& state) { state.tensors[0].second = torch::zeros({8}); }, "first.p0 is Float [8]");
  expect_refused([](auto& state) { state.tensors[0].second = torch::zeros({7}, torch::kDouble); }, "Double");
  expect_refused([](auto& state) { state.values["groups"][0]["name"] = "core"; }, "no group named 'core'");
  expect_refused(
      [](auto& state) { std::swap(state.values["groups"][0]["name"], state.values["groups"][1]["name"]); },
      "was saved in group");
  expect_refused([](auto& state) { state.values["steps"] = "five"; }, "damaged");
  expect_refused([](auto& state) { state.values["steps"] = -1; }, "-1 steps");
  expect_refused([](auto& state) { state.values = Json::array(); }, "damaged");
  EXPECT_EQ(optimiser.steps(), 1);
  optimiser.load(good);
}

TEST(AdamW, RefusesParametersItCannotHold) {
  torch::Tensor parameter = torch::zeros({2}).requires_grad_();
  EXPECT_THROW(AdamW({}, kGroups), Error);
  EXPECT_THROW(AdamW({{"p", parameter, "none"}}, kGroups), Error);
  EXPECT_THROW(AdamW({{"p", parameter, "rest"}}, {kGroups[1], kGroups[1]}), Error);
  EXPECT_THROW(AdamW({{"p", parameter, "rest"}, {"p", torch::zeros({2}).requires_grad_(), "rest"}}, kGroups),
               Error);
  EXPECT_THROW(AdamW({{"p", torch::zeros({2}, torch::kHalf).requires_grad_(), "rest"}}, kGroups), Error);
  EXPECT_THROW(AdamW({{"p", parameter, "rest"}}, kGroups, {.beta1 = 1}), Error);
}

}  // namespace
}  // namespace comera::optim
