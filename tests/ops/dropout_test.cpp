#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/ops/dropout.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

using namespace comera;
using namespace comera::ops;
using torch::Tensor;

namespace {

Tensor ids(std::vector<std::int64_t> values) { return torch::tensor(values, torch::kInt64); }

DropoutMask test_mask(double p = 0.3) { return {p, random_key(7, 3, 1), ids({4, 1ll << 50, -3})}; }

}  // namespace

TEST(DropoutKeep, TensorOperationsMakeTheSameMask) {
  const DropoutMask mask = test_mask();
  for (const std::int64_t features : {1, 17, 128, 300})
    EXPECT_TRUE(dropout_keep(mask, 5, features)
                    .to(torch::kFloat64)
                    .equal(reference::dropout_keep(mask, 5, features)));
}

TEST(DropoutOperator, EqualsTheReferenceInEveryDtype) {
  const DropoutMask mask = test_mask();
  for (const auto& [batch, positions, features] :
       std::vector<std::array<std::int64_t, 3>>{{3, 4, 50}, {3, 1, 129}, {3, 0, 8}, {3, 4, 0}}) {
    const Tensor x = torch::randn({batch, positions, features}, torch::kFloat64);
    const Tensor residual = torch::randn_like(x);
    for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
      const double tolerance = dtype == torch::kFloat64 ? 1e-14 : dtype == torch::kFloat32 ? 1e-6 : 2e-2;
      const Tensor a = x.to(dtype), r = residual.to(dtype);
      EXPECT_TRUE(torch::allclose(dropout(a, mask), reference::dropout(a, mask), tolerance, tolerance));
      EXPECT_TRUE(
          torch::allclose(dropout_add(a, r, mask), reference::dropout_add(a, r, mask), tolerance, tolerance));
      EXPECT_EQ(dropout(a, mask).scalar_type(), dtype);
    }
  }
}

TEST(DropoutOperator, TakesStridedInput) {
  const DropoutMask mask = test_mask();
  const Tensor x = torch::randn({3, 20, 6}).transpose(1, 2),
               residual = torch::randn({3, 20, 6}).transpose(1, 2);
  EXPECT_TRUE(dropout_add(x, residual, mask).equal(dropout_add(x.contiguous(), residual.contiguous(), mask)));
}

TEST(DropoutOperator, GradientsEqualAutogradThroughTheReference) {
  const DropoutMask mask = test_mask();
  const Tensor x = torch::randn({3, 5, 37}, torch::kFloat64).requires_grad_();
  const Tensor residual = torch::randn({3, 5, 37}, torch::kFloat64).requires_grad_();
  const Tensor weight = torch::randn_like(x);
  const auto gradients = [&](const Tensor& y) {
    return torch::autograd::grad({(y * y * weight).sum()}, {x, residual});
  };
  const auto fused = gradients(dropout_add(x, residual, mask) + dropout(x, mask));
  const auto plain = gradients(reference::dropout_add(x, residual, mask) + reference::dropout(x, mask));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(torch::allclose(fused[i], plain[i], 1e-9, 1e-12));
}

TEST(DropoutOperator, HasASecondDerivative) {
  const DropoutMask mask = test_mask();
  const Tensor x = torch::randn({3, 2, 9}, torch::kFloat64).requires_grad_();
  const auto first = torch::autograd::grad({dropout(x, mask).pow(3).sum()}, {x}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].sum()}, {x});
  const Tensor y = reference::dropout(x, mask), scale = reference::dropout(torch::ones_like(x), mask);
  EXPECT_TRUE(torch::allclose(second[0], 6 * y * scale * scale));
}

TEST(DropoutOperator, MicroBatchesAndPaddingDoNotChangeTheMask) {
  const DropoutMask whole = test_mask();
  const Tensor x = torch::randn({3, 8, 40}), y = dropout(x, whole);
  for (int b = 0; b < 3; ++b) {
    const DropoutMask one = {whole.p, whole.key, whole.sample_ids.slice(0, b, b + 1)};
    EXPECT_TRUE(dropout(x.slice(0, b, b + 1).slice(1, 0, 5), one).equal(y.slice(0, b, b + 1).slice(1, 0, 5)));
  }
}

TEST(DropoutOperator, ThreadCountDoesNotChangeTheResult) {
  const DropoutMask mask = test_mask();
  const Tensor x = torch::randn({3, 100, 300});
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  const Tensor one = dropout(x, mask);
  torch::set_num_threads(3);
  const Tensor three = dropout(x, mask);
  torch::set_num_threads(threads);
  EXPECT_TRUE(one.equal(three));
}

TEST(DropoutOperator, WithoutDropoutNothingIsRead) {
  const Tensor x = torch::randn({2, 3, 4});
  EXPECT_TRUE(dropout(x, {}).is_same(x));
  EXPECT_TRUE(dropout_add(x, x, {}).equal(x + x));
}

TEST(DropoutOperator, MetaGivesTheShape) {
  const auto meta = torch::TensorOptions().device(torch::kMeta);
  const DropoutMask mask = {0.1, 1, torch::empty({3}, meta.dtype(torch::kInt64))};
  const Tensor y = dropout(torch::empty({3, 5, 7}, meta), mask);
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{3, 5, 7}));
}

TEST(DropoutOperator, RefusesWhatDoesNotFit) {
  const Tensor x = torch::randn({3, 2, 4});
  EXPECT_THROW(dropout(x, {1.0, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(dropout(x, {-0.1, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(dropout(x, {0.1, 1, ids({1, 2})}), Error);
  EXPECT_THROW(dropout(x, {0.1, 1, torch::ones({3})}), Error);
  EXPECT_THROW(dropout(x[0], {0.1, 1, ids({1, 2, 3})}), Error);
  EXPECT_THROW(dropout_add(x, x.slice(2, 0, 3), {0.1, 1, ids({1, 2, 3})}), Error);
}
