// Moments after cuts: ours, and those of torch's own optimisers.
#include <comera/base/error.h>
#include <comera/optim/adamw.h>
#include <comera/optim/torch_optimiser.h>
#include <comera/weights/initialise.h>
#include <comera/weights/materialize.h>
#include <comera/weights/rounding.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

namespace comera::optim {
namespace {

weights::TensorTrain make_weight(std::uint64_t seed) {
  weights::TensorTrain weight(format::tt({4, 3}, {3, 4}, {3, 5, 4}), torch::kDouble);
  weights::initialise_spectral(weight, seed);
  return weight;
}

std::vector<Parameter> parameters_of(const weights::TensorTrain& weight) {
  std::vector<Parameter> parameters;
  for (const torch::Tensor& core : weight.cores())
    parameters.push_back({"cores." + std::to_string(parameters.size()), core, "all"});
  for (const torch::Tensor& scale : weight.scales())
    parameters.push_back({"scales." + std::to_string(parameters.size()), scale, "all"});
  return parameters;
}

std::vector<torch::Tensor> tensors_of(const weights::TensorTrain& weight) {
  std::vector<torch::Tensor> tensors;
  for (const Parameter& parameter : parameters_of(weight)) tensors.push_back(parameter.tensor);
  return tensors;
}

void backward(const weights::TensorTrain& weight, int t) {
  torch::manual_seed(t);
  const torch::Tensor x = torch::randn({20, 12}, torch::kDouble), y = torch::randn({20, 12}, torch::kDouble);
  (x.matmul(weights::materialize(weight)) - y).square().mean().backward();
}

void cut(weights::TensorTrain weight, weights::OptimiserState& state, bool by_selection) {
  const auto changes = by_selection ? weights::slice(weight, "w", {{0, 2}, {1, 2, 4}, {0, 1, 3}})
                                    : weights::round_to_ranks(weight, "w", {2, 3, 3});
  weights::apply(weight, changes);
  state.apply({{weight, changes}});
}

TEST(RankChange, AdamWAndTorchsAdamWStayEqualAcrossCuts) {
  for (const bool by_selection : {true, false}) {
    weights::TensorTrain a = make_weight(3), b = make_weight(3);
    AdamW ours(parameters_of(a), {{"all", 1e-2, 0.01}});
    torch::optim::AdamW theirs(tensors_of(b), torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
    TorchOptimiserState adapter(theirs);
    for (int t = 0; t < 12; ++t) {
      ours.zero_gradients(), theirs.zero_grad();
      backward(a, t), backward(b, t);
      ours.step(), theirs.step();
      if (t != 5) continue;
      cut(a, ours, by_selection), cut(b, adapter, by_selection);
      ours.rescale(a.cores()[1], 2.0), adapter.rescale(b.cores()[1], 2.0);
      EXPECT_TRUE(torch::allclose(ours.denominators(a.scales()), adapter.denominators(b.scales()), 1e-12, 0));
      EXPECT_EQ(ours.learning_rate(a.cores()[0]), adapter.learning_rate(b.cores()[0]));
    }
    EXPECT_EQ(a.shape().ranks, (std::vector<std::int64_t>{1, 2, 3, 3, 1}));
    for (std::size_t i = 0; i < tensors_of(a).size(); ++i)
      EXPECT_TRUE(torch::allclose(tensors_of(a)[i], tensors_of(b)[i], 1e-12, 1e-12)) << i;
  }
}

TEST(RankChange, CutMomentsAreThoseOfASmallerModelFromTheStart) {
  // Ranks whose scales are zero, and whose cores see no gradient elsewhere: cutting them must leave the same
  // run.
  weights::TensorTrain full = make_weight(4);
  const torch::NoGradGuard no_grad;
  for (const auto& scale : full.scales()) scale.narrow(0, scale.size(0) - 1, 1).zero_();
  weights::TensorTrain small = make_weight(4);
  for (std::size_t k = 0; k < small.scales().size(); ++k) small.scales()[k].copy_(full.scales()[k]);
  weights::apply(small, weights::slice(small, "w", {{0, 1}, {0, 1, 2, 3}, {0, 1, 2}}));
  AdamW of_full(parameters_of(full), {{"all", 1e-2}}), of_small(parameters_of(small), {{"all", 1e-2}});
  const auto step = [](AdamW& optimiser, const weights::TensorTrain& weight, int t) {
    optimiser.zero_gradients();
    {
      const torch::AutoGradMode with_grad(true);
      backward(weight, t);
    }
    // As a proximal step would: dead scales stay at zero.
    for (const auto& scale : weight.scales()) scale.grad().masked_fill_(scale == 0, 0);
    optimiser.step();
  };
  for (int t = 0; t < 5; ++t) step(of_full, full, t), step(of_small, small, t);
  const auto changes = weights::slice(full, "w", {{0, 1}, {0, 1, 2, 3}, {0, 1, 2}});
  weights::apply(full, changes);
  of_full.apply({{full, changes}});
  for (int t = 5; t < 10; ++t) step(of_full, full, t), step(of_small, small, t);
  for (std::size_t i = 0; i < tensors_of(full).size(); ++i)
    EXPECT_TRUE(torch::allclose(tensors_of(full)[i], tensors_of(small)[i], 1e-10, 1e-10)) << i;
}

TEST(RankChange, BytesFollowTheCountExactly) {
  weights::TensorTrain weight = make_weight(5);
  torch::Tensor other = torch::zeros({10}, torch::kDouble).requires_grad_();
  auto parameters = parameters_of(weight);
  parameters.push_back({"other", other, "all"});
  AdamW optimiser(parameters, {{"all", 1e-2}});
  const auto expect_exact = [&] {
    const std::int64_t bytes = 8 * (weight.shape().parameters() + 10);
    EXPECT_EQ(optimiser.parameters().bytes(), 2 * bytes);
    EXPECT_EQ(optimiser.bytes(), 2 * bytes);
  };
  expect_exact();
  backward(weight, 0);
  optimiser.step();
  cut(weight, optimiser, true);
  expect_exact();
  cut(weight, optimiser, false);
  expect_exact();
  const auto death = weights::slice(weight, "w", {{}, {}, {}});
  weights::apply(weight, death);
  optimiser.apply({{weight, death}});
  EXPECT_EQ(weight.shape().parameters(), 0);
  expect_exact();
  optimiser.zero_gradients();
  other.grad().fill_(1);
  optimiser.step();
  EXPECT_LT(other[0].item<double>(), 0);
}

TEST(RankChange, TorchOptimisersOfEveryFamilyGoOn) {
  const auto check_family = [](auto make) {
    weights::TensorTrain weight = make_weight(6);
    auto optimiser = make(tensors_of(weight));
    TorchOptimiserState state(*optimiser);
    cut(weight, state, true);  // before the first step: no state yet
    EXPECT_EQ(state.denominators(weight.scales()).numel(), 8);
    for (int t = 0; t < 4; ++t) {
      optimiser->zero_grad();
      backward(weight, t);
      optimiser->step();
      if (t != 1) continue;
      const auto changes = weights::round_to_ranks(weight, "w", {1, 2, 2});
      weights::apply(weight, changes);
      state.apply({{weight, changes}});
    }
    EXPECT_TRUE(torch::isfinite(weights::materialize(weight)).all().item<bool>());
  };
  using namespace torch::optim;
  check_family(
      [](auto parameters) { return std::make_unique<Adam>(parameters, AdamOptions(1e-2).amsgrad(true)); });
  check_family([](auto parameters) {
    return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-2));
  });
  check_family(
      [](auto parameters) { return std::make_unique<SGD>(parameters, SGDOptions(1e-2).momentum(0.9)); });
  check_family([](auto parameters) { return std::make_unique<SGD>(parameters, SGDOptions(1e-2)); });
  torch::optim::RMSprop other(tensors_of(make_weight(1)));
  EXPECT_THROW(TorchOptimiserState{other}, Error);
}

TEST(RankChange, NeverSteppedMeansNoProximalStep) {
  weights::TensorTrain weight = make_weight(7);
  AdamW optimiser(parameters_of(weight), {{"all", 1e-2}});
  EXPECT_TRUE(torch::isinf(optimiser.denominators(weight.scales())).all().item<bool>());
  EXPECT_THROW(optimiser.learning_rate(torch::zeros({2})), Error);
}

}  // namespace
}  // namespace comera::optim
