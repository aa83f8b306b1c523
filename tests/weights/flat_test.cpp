#include "weight_cases.h"

#include <comera/base/error.h>
#include <comera/weights/bond_change.h>
#include <comera/weights/flat.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;
using weights::FlatBuffer;
using weights::FlatParameters;

namespace {

FlatParameters flat(const weights::TensorTrain& weight, const torch::Tensor& bias) {
  std::vector<FlatParameters::Parameter> parameters;
  for (const auto& core : weight.cores())
    parameters.push_back({"cores." + std::to_string(parameters.size()), core});
  for (const auto& scale : weight.scales())
    parameters.push_back({"scales." + std::to_string(parameters.size()), scale});
  parameters.push_back({"bias", bias});
  return FlatParameters(parameters);
}

torch::Tensor loss(const weights::TensorTrain& weight, const torch::Tensor& bias) {
  return (weights::materialize(weight) + bias).square().sum();
}

struct Layer {
  weights::TensorTrain weight = random_weight(format::tt({4, 3}, {2, 5}, {3, 5, 2}), 1);
  torch::Tensor bias = torch::ones({10}, torch::kDouble).requires_grad_();
};

}  // namespace

TEST(FlatBuffer, PartsAreViewsInOrderWithoutGaps) {
  const FlatBuffer buffer({torch::ones({2, 3}), torch::empty({0, 4}), torch::full({5}, 2.0f)});
  EXPECT_EQ(buffer.flat().numel(), 11);
  EXPECT_EQ(buffer.parts()[1].sizes(), (List{0, 4}));
  EXPECT_EQ(buffer.offset(2), 6);
  buffer.flat().fill_(7);
  EXPECT_EQ(buffer.parts()[2].sum().item<float>(), 35);
  EXPECT_EQ(FlatBuffer(std::vector<torch::Tensor>{}).flat().numel(), 0);
  EXPECT_THROW(FlatBuffer({torch::ones({2}), torch::ones({2}, torch::kDouble)}), Error);
}

TEST(FlatParameters, GradientsAreTheOrdinaryOnesAndAccumulateInPlace) {
  Layer layer, plain;
  loss(plain.weight, plain.bias).backward();
  std::vector<torch::Tensor> wanted;
  for (const auto& core : plain.weight.cores()) wanted.push_back(core.grad().flatten());
  for (const auto& scale : plain.weight.scales()) wanted.push_back(scale.grad());
  wanted.push_back(plain.bias.grad());
  const FlatParameters parameters = flat(layer.weight, layer.bias);
  for (int pass = 1; pass <= 2; ++pass) {
    loss(layer.weight, layer.bias).backward();
    EXPECT_TRUE(parameters.gradients().flat().allclose(torch::cat(wanted) * pass, 1e-14, 0));
  }
}

TEST(FlatParameters, AStepOnTheFlatValuesMovesTheParameters) {
  Layer layer;
  const FlatParameters parameters = flat(layer.weight, layer.bias);
  const torch::Tensor core = layer.weight.cores()[1].detach().clone();
  parameters.values().flat().mul_(2);
  EXPECT_TRUE(layer.weight.cores()[1].equal(core * 2));
  EXPECT_TRUE(layer.bias.equal(torch::full({10}, 2.0, torch::kDouble)));
  EXPECT_EQ(parameters.bytes(), 2 * 8 * (layer.weight.shape().parameters() + 10));
}

TEST(FlatParameters, ZeroGradientsRestoresGradientsThatWereSetToNone) {
  Layer layer;
  FlatParameters parameters = flat(layer.weight, layer.bias);
  loss(layer.weight, layer.bias).backward();
  layer.bias.mutable_grad() = torch::Tensor();
  EXPECT_THROW(parameters.gradients(), Error);
  loss(layer.weight, layer.bias).backward();  // autograd makes a gradient of its own
  EXPECT_THROW(parameters.gradients(), Error);
  parameters.zero_gradients();
  EXPECT_EQ(parameters.gradients().flat().abs().sum().item<double>(), 0);
  loss(layer.weight, layer.bias).backward();
  EXPECT_TRUE(parameters.gradients().parts().back().equal(layer.bias.grad()));
}

TEST(FlatParameters, RefreshAfterACut) {
  Layer layer;
  FlatParameters parameters = flat(layer.weight, layer.bias);
  const torch::Tensor old_loss = loss(layer.weight, layer.bias);
  old_loss.backward();
  const auto core_before = layer.weight.cores()[0];
  const torch::Tensor bias_gradient = layer.bias.grad().clone();
  weights::apply(layer.weight, weights::slice(layer.weight, "layer", {{0}, {1, 3}, {0, 1}}));
  EXPECT_THROW(parameters.values(), Error);
  EXPECT_THROW(parameters.zero_gradients(), Error);
  const torch::Tensor cut = layer.weight.cores()[1].detach().clone();
  parameters.refresh();
  EXPECT_EQ(parameters.bytes(), 2 * 8 * (layer.weight.shape().parameters() + 10));
  EXPECT_TRUE(core_before.is_same(parameters.parameters()[0].tensor));
  EXPECT_TRUE(layer.weight.cores()[1].equal(cut));
  EXPECT_TRUE(layer.bias.grad().equal(bias_gradient));
  parameters.zero_gradients();
  loss(layer.weight, layer.bias).backward();
  EXPECT_TRUE(parameters.gradients().parts()[1].equal(layer.weight.cores()[1].grad()));
  EXPECT_GT(parameters.gradients().parts()[1].abs().sum().item<double>(), 0);
}

TEST(FlatParameters, ADeadWeightHasEmptyParts) {
  Layer layer;
  FlatParameters parameters = flat(layer.weight, layer.bias);
  weights::apply(layer.weight, weights::slice(layer.weight, "layer", {{}, {}, {}}));
  parameters.refresh();
  EXPECT_EQ(parameters.values().flat().numel(), 10);
  loss(layer.weight, layer.bias).backward();
  EXPECT_EQ(parameters.gradients().flat().numel(), 10);
  EXPECT_GT(parameters.gradients().flat().abs().sum().item<double>(), 0);
}

TEST(FlatParameters, DoubleListingsAndNonLeavesAreRefused) {
  const torch::Tensor a = torch::ones({2}).requires_grad_(), b = torch::ones({2}).requires_grad_();
  EXPECT_THROW(FlatParameters({{"a", a}, {"a", b}}), Error);
  EXPECT_THROW(FlatParameters({{"a", a}, {"b", a}}), Error);
  EXPECT_THROW(FlatParameters({{"a", a * 2}}), Error);
  EXPECT_THROW(FlatParameters({{"a", torch::ones({2})}}), Error);
}
