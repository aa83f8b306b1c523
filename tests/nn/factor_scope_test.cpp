#include <comera/base/error.h>
#include <comera/nn/factor_scope.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::nn;

namespace {

struct Two : torch::nn::Module {
  TtLinear a{TtLinearOptions{.in = {3, 4}, .out = {4, 3}, .ranks = {5}, .key = 1}};
  TtLinear b{TtLinearOptions{.in = {3, 4}, .out = {4, 3}, .ranks = {5}, .key = 2}};
  TtLinear c{TtLinearOptions{.in = {3, 4}, .out = {7}, .ranks = {2, 3}, .key = 3}};
  Two() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
    to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& x) { return c(torch::tanh(b(torch::tanh(a(x))))); }
};

std::vector<torch::Tensor> gradients(const torch::nn::Module& module) {
  std::vector<torch::Tensor> result;
  for (const auto& p : module.parameters()) result.push_back(p.grad().clone());
  return result;
}

}  // namespace

TEST(FactorScope, GivesTheGradientsOfModulesAlone) {
  torch::manual_seed(1);
  Two model;
  const auto x = torch::randn({6, 12}, torch::kFloat64);
  model.forward(x).square().sum().backward();
  const auto alone = gradients(model);
  model.zero_grad(/*set_to_none=*/true);
  {
    FactorScope scope(model);
    // Two micro-batches, one pull-back.
    for (const auto& part : x.chunk(2)) model.forward(part).square().sum().backward();
    scope.pull_back();
  }
  const auto scoped = gradients(model);
  ASSERT_EQ(alone.size(), scoped.size());
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_LT((alone[i] - scoped[i]).abs().max().item<double>(),
              1e-12 * (1 + alone[i].abs().max().item<double>()));
}

TEST(FactorScope, LayersWithAPlanGiveTheSameGradients) {
  torch::manual_seed(2);
  Two model;
  const auto x = torch::randn({6, 12}, torch::kFloat64);
  model.forward(x).square().sum().backward();
  const auto alone = gradients(model);
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"b"}, std::vector<std::string>{"a", "b", "c"}}) {
    model.zero_grad(/*set_to_none=*/true);
    LayerPlans plans;
    for (const std::string& name : names) {
      const TtLinear& layer = name == "c" ? model.c : model.b;
      plan::Request request{{layer->tensor_train().shape()}, 3};
      request.dtype = plan::DType::float64;
      plans[name] =
          std::make_shared<const plan::Plan>(plan::make_plan(request, plan::default_profile(request.dtype)));
    }
    {
      FactorScope scope(model, plans);
      for (const auto& part : x.chunk(2)) model.forward(part).square().sum().backward();
      scope.pull_back();
      EXPECT_THROW(
          model.b->tensor_train().replace(model.b->tensor_train().cores(), model.b->tensor_train().scales()),
          Error);
      EXPECT_THROW(FactorScope second(model), Error);
    }
    const auto planned = gradients(model);
    ASSERT_EQ(alone.size(), planned.size());
    for (std::size_t i = 0; i < alone.size(); ++i)
      EXPECT_LT((alone[i] - planned[i]).abs().max().item<double>(),
                1e-12 * (1 + alone[i].abs().max().item<double>()));
  }
  auto weight = model.b->tensor_train();
  weight.replace(weight.cores(), weight.scales());
}

TEST(FactorScope, RanksCannotChangeInsideAndModulesWorkAloneAfterwards) {
  Two model;
  auto weight = model.a->tensor_train();
  {
    FactorScope scope(model);
    EXPECT_THROW(weight.replace(weight.cores(), weight.scales()), Error);
    EXPECT_THROW(FactorScope second(model), Error);
  }
  weight.replace(weight.cores(), weight.scales());
  EXPECT_NO_THROW(model.forward(torch::zeros({1, 12}, torch::kFloat64)));
}

TEST(FactorScope, WithoutGradientsGivesTheSameOutputs) {
  Two model;
  torch::NoGradGuard no_grad;
  const auto x = torch::randn({5, 12}, torch::kFloat64);
  const auto alone = model.forward(x);
  FactorScope scope(model);
  EXPECT_TRUE(torch::allclose(alone, model.forward(x), 1e-12, 1e-12));
}

TEST(TtLinear, AWrongWidthIsSaid) {
  TtLinear layer({.in = {12, 8, 8}, .out = {8, 8, 12}, .ranks = {4}});
  try {
    layer(torch::zeros({2, 512}));
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[tt_linear] expected last input dimension 768, got 512");
  }
}
