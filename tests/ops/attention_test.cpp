#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/ops/attention.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::ops;
using torch::Tensor;

namespace {

struct Case {
  std::int64_t batch, positions, heads, d;
  bool causal = false, with_lengths = false;
  double p = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << " x " << c.positions << ", " << c.heads << " heads of " << c.d
             << (c.causal ? ", causal" : "") << (c.with_lengths ? ", lengths" : "") << ", p " << c.p;
}

/// Shapes that cross the borders of vectors, mask groups and blocks of queries.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto& [batch, positions, heads, d] : std::vector<std::array<std::int64_t, 4>>{{2, 1, 1, 4},
                                                                                           {3, 7, 2, 5},
                                                                                           {2, 129, 3, 16},
                                                                                           {1, 300, 2, 8},
                                                                                           {0, 5, 2, 4},
                                                                                           {2, 0, 2, 4},
                                                                                           {3, 20, 1, 1}})
    for (const bool causal : {false, true})
      for (const bool with_lengths : {false, true})
        for (const double p : {0.0, 0.25})
          result.push_back({batch, positions, heads, d, causal, with_lengths, p});
  return result;
}

struct Inputs {
  Tensor q, k, v, weight;
  std::optional<Tensor> lengths;
  DropoutMask mask;
};

Inputs make_inputs(const Case& c, torch::ScalarType dtype = torch::kFloat64) {
  torch::manual_seed(5);
  const auto normal = [&] {
    return torch::randn({c.batch, c.positions, c.heads * c.d}, torch::kFloat64).to(dtype);
  };
  Inputs inputs = {normal(), normal(), normal(), normal(), std::nullopt, {}};
  // The first sample is empty, the last whole, those between anything.
  if (c.with_lengths && c.batch > 0) {
    Tensor lengths = torch::linspace(0, c.positions, c.batch).to(torch::kInt64);
    lengths[c.batch - 1] = c.positions;
    inputs.lengths = lengths;
  }
  inputs.mask = {c.p, random_key(1, 2, 3), torch::arange(c.batch) * 1000 + 7};
  return inputs;
}

using Implementation = decltype(&attention);

Tensor run(Implementation implementation, const Inputs& x, const Case& c) {
  return implementation(x.q, x.k, x.v, c.heads, x.lengths, c.causal, x.mask);
}

std::vector<Tensor> gradients(Implementation implementation, Inputs x, const Case& c) {
  for (Tensor* t : {&x.q, &x.k, &x.v}) *t = t->detach().requires_grad_();
  return torch::autograd::grad({(run(implementation, x, c) * x.weight).sum()}, {x.q, x.k, x.v});
}

double largest(const Tensor& x) { return x.numel() ? x.abs().max().item<double>() : 0; }

void expect_close(const Tensor& a, const Tensor& b, double relative) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE(largest(a - b), relative * (1e-2 + largest(b)));
}

}  // namespace

TEST(AttentionOperator, EqualsTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << c);
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      const Inputs x = make_inputs(c, dtype);
      expect_close(run(attention, x, c), run(reference::attention, x, c),
                   dtype == torch::kFloat64 ? 1e-13 : 2e-5);
    }
  }
}

TEST(AttentionOperator, GradientsEqualAutogradThroughTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << c);
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      const Inputs x = make_inputs(c, dtype);
      const auto fused = gradients(attention, x, c), plain = gradients(reference::attention, x, c);
      for (int i = 0; i < 3; ++i) expect_close(fused[i], plain[i], dtype == torch::kFloat64 ? 1e-9 : 1e-4);
    }
  }
}

TEST(AttentionOperator, GradientsEqualFiniteDifferences) {
  const Case c = {2, 9, 2, 4, true, true, 0.25};
  const Inputs x = make_inputs(c);
  const auto analytic = gradients(attention, x, c);
  const double step = 1e-5;
  int which = 0;
  for (Tensor Inputs::*input : {&Inputs::q, &Inputs::k, &Inputs::v}) {
    const Tensor direction = torch::randn_like(x.q);
    const auto at = [&](double sign) {
      Inputs moved = x;
      moved.*input = x.*input + sign * step * direction;
      return (run(attention, moved, c) * x.weight).sum().item<double>();
    };
    const double slope = (at(1) - at(-1)) / (2 * step);
    EXPECT_NEAR((analytic[which++] * direction).sum().item<double>(), slope, 1e-6 * (1 + std::abs(slope)));
  }
}

TEST(AttentionOperator, ThreadCountDoesNotChangeABit) {
  for (const Case& c : {Case{3, 129, 2, 16, false, true, 0.1}, Case{1, 300, 1, 8, true, false, 0.1}}) {
    const Inputs x = make_inputs(c, torch::kFloat32);
    const int threads = torch::get_num_threads();
    torch::set_num_threads(1);
    const Tensor one = run(attention, x, c);
    const auto one_gradients = gradients(attention, x, c);
    torch::set_num_threads(3);
    const Tensor three = run(attention, x, c);
    const auto three_gradients = gradients(attention, x, c);
    torch::set_num_threads(threads);
    EXPECT_TRUE(one.equal(three));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(one_gradients[i].equal(three_gradients[i]));
  }
}

TEST(AttentionOperator, PaddingAndMicroBatchesDoNotChangeASample) {
  const Case whole = {3, 140, 2, 8, false, true, 0.2};
  Inputs x = make_inputs(whole);
  const std::vector<std::int64_t> lengths = {40, 133, 140};
  x.lengths = torch::tensor(lengths, torch::kInt64);
  const Tensor together = run(attention, x, whole);
  for (int b = 0; b < 3; ++b) {
    const auto alone = [&](const Tensor& t) { return t.slice(0, b, b + 1).slice(1, 0, lengths[b]); };
    const DropoutMask mask = {x.mask.p, x.mask.key, x.mask.sample_ids.slice(0, b, b + 1)};
    const Tensor result = attention(alone(x.q), alone(x.k), alone(x.v), 2, std::nullopt, false, mask);
    expect_close(result, alone(together), 1e-13);
    EXPECT_EQ(largest(together[b].slice(0, lengths[b])), 0);
  }
}

TEST(AttentionOperator, TakesSlicesAndExpandedGradients) {
  const std::int64_t width = 12;
  const Tensor all = torch::randn({2, 9, 3 * width}, torch::kFloat64).requires_grad_();
  const auto loss = [&](Implementation implementation) {
    const auto parts = all.chunk(3, 2);
    return implementation(parts[0], parts[1], parts[2], 3, std::nullopt, false, {}).sum();
  };
  expect_close(torch::autograd::grad({loss(attention)}, {all})[0],
               torch::autograd::grad({loss(reference::attention)}, {all})[0], 1e-12);
  const Tensor x = torch::randn({2, width, 9}, torch::kFloat64).transpose(1, 2);
  expect_close(attention(x, x, x, 3, std::nullopt, false, {}),
               reference::attention(x, x, x, 3, std::nullopt, false, {}), 1e-13);
}

TEST(AttentionOperator, DropsProbabilitiesAtTheRate) {
  const std::int64_t positions = 64, heads = 4;
  const double p = 0.3;
  // Equal scores and one-hot values show the probabilities of all keys.
  const Tensor zeros = torch::zeros({2, positions, heads * positions});
  const Tensor values = torch::eye(positions).repeat({1, heads}).expand({2, positions, heads * positions});
  const DropoutMask mask = {p, 99, torch::arange(2)};
  const Tensor kept =
      attention(zeros, zeros, values, heads, std::nullopt, false, mask).gt(0).to(torch::kFloat64);
  const double count = static_cast<double>(kept.numel());
  EXPECT_NEAR(kept.mean().item<double>(), 1 - p, 5 * std::sqrt(p * (1 - p) / count));
  const Tensor by_head = kept.view({2, positions, heads, positions}) - (1 - p);
  const double between_heads = (by_head.select(2, 0) * by_head.select(2, 1)).sum().item<double>() /
                               (p * (1 - p)) / std::sqrt(count / heads);
  EXPECT_LT(std::abs(between_heads), 5);
}

TEST(AttentionOperator, LongSequencesStayInBlocks) {
  // Scores of 16 heads at 4,096 positions would take 1 GiB.
  const Case c = {1, 4096, 16, 4, true, false, 0.1};
  const Inputs x = make_inputs(c, torch::kFloat32);
  const Tensor result = run(attention, x, c);
  EXPECT_TRUE(result.isfinite().all().item<bool>());
  // The first query sees one key: its probability is 1, dropped or scaled.
  EXPECT_LT(largest(result[0][0] * (result[0][0] - x.v[0][0] / 0.9)), 1e-3);
}

TEST(AttentionOperator, OtherDtypesRunAsTensorOperations) {
  const Case c = {2, 9, 2, 4, true, true, 0.25};
  const Inputs x = make_inputs(c, torch::kBFloat16);
  expect_close(run(attention, x, c).to(torch::kFloat64), run(reference::attention, make_inputs(c), c), 5e-2);
}

TEST(AttentionOperator, MetaGivesTheShape) {
  const Tensor x = torch::empty({2, 5, 8}, torch::kMeta);
  EXPECT_EQ(attention(x, x, x, 2, std::nullopt, false, {}).sizes(), x.sizes());
}

TEST(AttentionOperator, HasNoSecondDerivativeAndSaysSo) {
  const Tensor x = torch::randn({1, 3, 4}).requires_grad_();
  const Tensor y = attention(x, x, x, 2, std::nullopt, false, {});
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, true, true), Error);
}

TEST(AttentionOperator, RefusesWhatDoesNotFit) {
  const Tensor x = torch::randn({2, 3, 8});
  const auto with_lengths = [&](std::vector<std::int64_t> lengths) {
    return attention(x, x, x, 2, torch::tensor(lengths, torch::kInt64), false, {});
  };
  EXPECT_THROW(attention(x, x, x, 3, std::nullopt, false, {}), Error);
  EXPECT_THROW(attention(x, x, x, 0, std::nullopt, false, {}), Error);
  EXPECT_THROW(attention(x, x.slice(1, 0, 2), x, 2, std::nullopt, false, {}), Error);
  EXPECT_THROW(attention(x[0], x[0], x[0], 2, std::nullopt, false, {}), Error);
  EXPECT_THROW(attention(x, x, x, 2, std::nullopt, false, {0.5, 1, torch::arange(3)}), Error);
  EXPECT_THROW(with_lengths({3, 4}), Error);
  EXPECT_THROW(with_lengths({-1, 3}), Error);
  EXPECT_THROW(with_lengths({1}), Error);
}
