#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/ops/factored_linear.h>
#include <comera/ops/implementation.h>
#include <comera/weights/torch.h>

#include <allocation_probe.h>
#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;

namespace {

constexpr std::uint64_t kSeed = 11;

torch::Tensor in_layout(const torch::Tensor& x, Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return x;
    case Layout::swapped:
      return x.transpose(0, 1).contiguous().transpose(0, 1);
    case Layout::columns:
      return x.transpose(0, -1).contiguous().transpose(0, -1);
    case Layout::strided:
      return at::stack({x, x}, -1).select(-1, 0);
  }
  return x;
}

/// x, a, b and, where the case has one, the bias.
Tensors make_inputs(const LinearCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  Sizes sizes = c.leading;
  sizes.push_back(c.in);
  Tensors inputs{in_layout(normal(sizes, type), c.layout), normal({c.in, c.rank}, type),
                 normal({c.rank, c.out}, type)};
  if (c.bias) inputs.push_back(normal({c.out}, type));
  return inputs;
}

std::optional<torch::Tensor> bias_of(const Tensors& t) {
  return t.size() > 3 ? std::optional(t[3]) : std::nullopt;
}
Tensors fused(const Tensors& t) { return {ops::factored_linear(t[0], t[1], t[2], bias_of(t))}; }
Tensors reference(const Tensors& t) {
  return {ops::reference::factored_linear(t[0], t[1], t[2], bias_of(t))};
}

class FactoredLinear : public testing::TestWithParam<LinearCase> {};

}  // namespace

TEST_P(FactoredLinear, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    SCOPED_TRACE(c10::toString(type));
    expect_like_reference(fused, reference, make_inputs(GetParam(), normal, type), normal);
  }
}

TEST_P(FactoredLinear, GradientsAreFiniteDifferences) {
  if (GetParam().tokens() > 200) GTEST_SKIP() << "small cases only";
  Normal normal(kSeed);
  expect_like_finite_differences(fused, make_inputs(GetParam(), normal), normal);
}

TEST_P(FactoredLinear, ShapesWithoutValues) {
  Normal normal(kSeed);
  expect_meta_shapes(fused, make_inputs(GetParam(), normal));
}

TEST_P(FactoredLinear, SameBitsForAnyThreadCount) {
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused, make_inputs(GetParam(), normal, torch::kFloat32), normal);
}

TEST_P(FactoredLinear, IsTheSameThroughTheDispatcher) {
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(GetParam(), normal);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("comera::factored_linear", "");
  torch::jit::Stack stack{inputs[0], inputs[1], inputs[2], bias_of(inputs)};
  op.callBoxed(stack);
  EXPECT_TRUE(stack.at(0).toTensor().equal(fused(inputs)[0]));
}

INSTANTIATE_TEST_SUITE_P(Cases, FactoredLinear, testing::ValuesIn(linear_cases()), case_name<LinearCase>);

// Shapes at which the library's threaded products are known to sum in another order for another thread count.
TEST(FactoredLinearSums, LongSumsAreTheSameForAnyThreadCount) {
  if (ops::use_reference()) GTEST_SKIP() << "the library's order";
  Normal normal(kSeed);
  for (const LinearCase& c :
       {LinearCase{"ffn_up", {37}, 256, 1024, 30}, LinearCase{"tall", {1000}, 64, 64, 30},
        LinearCase{"ffn_down", {128}, 3072, 64, 30}}) {
    SCOPED_TRACE(c.name);
    expect_same_for_any_thread_count(fused, make_inputs(c, normal, torch::kFloat32), normal);
  }
}

TEST(FactoredLinearGradients, OnlyThoseThatAreNeededAreMade) {
  Normal normal(kSeed);
  const Tensors inputs = make_inputs({"plain", {40}, 6, 10, 4}, normal);
  const Tensors weights = weights_for(reference, inputs, normal);
  const Evaluation all = evaluate(reference, inputs, weights);
  for (unsigned subset = 1; subset < 16; ++subset) {
    SCOPED_TRACE(subset);
    Tensors leaves, wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      leaves.push_back(inputs[i].detach().requires_grad_(subset >> i & 1));
      if (subset >> i & 1) wanted.push_back(leaves[i]);
    }
    const Tensors gradients = torch::autograd::grad(fused(leaves), wanted, weights);
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (subset >> i & 1)
        EXPECT_TRUE(close(gradients[next++], all.gradients[i], "input " + std::to_string(i)));
  }
}

TEST(FactoredLinearGradients, AnExpandedGradientIsTaken) {
  Normal normal(kSeed);
  auto x = normal({5, 6}).requires_grad_(), expected = x.detach().clone().requires_grad_();
  const auto a = normal({6, 3}), b = normal({3, 4});
  ops::factored_linear(x, a, b, std::nullopt).sum().backward();
  ops::reference::factored_linear(expected, a, b, std::nullopt).sum().backward();
  EXPECT_TRUE(close(x.grad(), expected.grad(), "dX"));
}

TEST(FactoredLinearGradients, ASecondDerivativeIsRefused) {
  if (ops::use_reference()) GTEST_SKIP() << "the reference has one";
  Normal normal(kSeed);
  auto x = normal({5, 6}).requires_grad_();
  const auto y = ops::factored_linear(x, normal({6, 3}), normal({3, 4}), std::nullopt);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, true, true), Error);
}

TEST(FactoredLinearMemory, SavesTheLatentOnlyAndCopiesNothing) {
  if (ops::use_reference() || test_device().is_cuda())
    GTEST_SKIP() << "the reference and CUDA allocate in other ways";
  constexpr std::int64_t tokens = 192, in = 48, out = 80, rank = 6, bytes = sizeof(float), strips = 3;
  Normal normal(kSeed);
  Tensors leaves = make_inputs({"memory", {tokens}, in, out, rank}, normal, torch::kFloat32);
  for (auto& leaf : leaves) leaf.requires_grad_();
  const auto dy = normal({tokens, out}, torch::kFloat32);

  AllocationProbe probe;
  auto y = fused(leaves)[0];
  const std::int64_t y_bytes = tokens * out * bytes, latent_bytes = tokens * (rank + 1) * bytes;
  EXPECT_EQ(probe.counts().live_bytes, y_bytes + latent_bytes);
  EXPECT_EQ(probe.counts().total_bytes, y_bytes + latent_bytes + (rank + 1) * out * bytes);

  probe.reset();
  const auto gradients = torch::autograd::grad({y}, leaves, {dy});
  const std::int64_t u = tokens * rank, dx = tokens * in, da = rank * in, db = (rank + 1) * out;
  EXPECT_EQ(probe.counts().total_bytes, (u + dx + (strips + 1) * (da + db)) * bytes);
}

TEST(FactoredLinearInput, WrongShapesAreRefusedWithTheNumbers) {
  Normal normal(kSeed);
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto x = normal({2, 512}), a = normal({768, 3}), b = normal({3, 4});
  EXPECT_EQ(message([&] { ops::factored_linear(x, a, b, std::nullopt); }),
            "[factored_linear] expected last input dimension 768, got 512");
  EXPECT_EQ(message([&] {
              ops::factored_linear(x, a, normal({4, 4}), std::nullopt);
            }),
            "[factored_linear] expected factors a [in, r] and b [r, out], got [768, 3] and [4, 4]");
  EXPECT_EQ(message([&] { ops::factored_linear(normal({768}), a, b, normal({5})); }),
            "[factored_linear] expected a bias of 4 numbers, got [5]");
  EXPECT_NE(message([&] {
              ops::factored_linear(normal({2, 768}, torch::kFloat32), a, b, std::nullopt);
            }),
            "no error");
}
