#include "op_cases.h"
#include "operator_checks.h"

#include <comera/base/error.h>
#include <comera/ops/implementation.h>
#include <comera/ops/ttm_embedding.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::test;

namespace {

constexpr std::uint64_t kSeed = 13;

/// Cores, then scales.
Tensors make_inputs(const TableCase& c, Normal& normal, torch::ScalarType type = torch::kFloat64) {
  Sizes ranks{1};
  ranks.insert(ranks.end(), c.ranks.begin(), c.ranks.end());
  ranks.push_back(1);
  Tensors inputs;
  for (std::int64_t k = 0; k < c.order(); ++k)
    inputs.push_back(normal({ranks[k], c.row_digits[k], c.col_digits[k], ranks[k + 1]}, type));
  for (std::int64_t k = 1; k < c.order(); ++k) inputs.push_back(normal({ranks[k]}, type));
  return inputs;
}

torch::Tensor make_indices(const TableCase& c, Normal& normal) {
  return normal.integers(c.rows, c.indices, c.index_type);
}

template <class LookUp>
Operator operator_of(const TableCase& c, const torch::Tensor& indices, const LookUp& look_up) {
  return [=](const Tensors& inputs) -> Tensors {
    const torch::TensorList all(inputs);
    const auto device = inputs[0].device();
    return {look_up(indices.to(device), all.slice(0, c.order()), all.slice(c.order()), c.rows)};
  };
}
Operator fused(const TableCase& c, const torch::Tensor& indices) {
  return operator_of(c, indices, ops::ttm_embedding);
}
Operator reference(const TableCase& c, const torch::Tensor& indices) {
  return operator_of(c, indices, ops::reference::ttm_embedding);
}

class TtmEmbedding : public testing::TestWithParam<TableCase> {};

}  // namespace

TEST_P(TtmEmbedding, ValuesAndGradientsAreThoseOfTheReference) {
  Normal normal(kSeed);
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    SCOPED_TRACE(c10::toString(type));
    const auto indices = make_indices(GetParam(), normal);
    expect_like_reference(fused(GetParam(), indices), reference(GetParam(), indices),
                          make_inputs(GetParam(), normal, type), normal);
  }
}

TEST_P(TtmEmbedding, GradientsAreFiniteDifferences) {
  Normal normal(kSeed);
  expect_like_finite_differences(fused(GetParam(), make_indices(GetParam(), normal)),
                                 make_inputs(GetParam(), normal), normal);
}

TEST_P(TtmEmbedding, ShapesWithoutValues) {
  Normal normal(kSeed);
  expect_meta_shapes(fused(GetParam(), make_indices(GetParam(), normal)), make_inputs(GetParam(), normal));
}

TEST_P(TtmEmbedding, SameBitsForAnyThreadCount) {
  if (test_device().is_cuda()) GTEST_SKIP() << "CUDA sums gradients of equal rows in any order";
  Normal normal(kSeed);
  expect_same_for_any_thread_count(fused(GetParam(), make_indices(GetParam(), normal)),
                                   make_inputs(GetParam(), normal, torch::kFloat32), normal);
}

TEST_P(TtmEmbedding, EveryEntryIsTheProductOfItsSlices) {
  const TableCase& c = GetParam();
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const auto indices = make_indices(c, normal);
  const std::int64_t columns = c10::multiply_integers(c.col_digits);
  const auto rows = fused(c, indices)(inputs)[0].reshape({indices.numel(), columns});
  const auto list = indices.flatten().to(torch::kCPU, torch::kInt64);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(indices.numel(), 8); ++i)
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int64_t row_rest = list[i].item<std::int64_t>(), column_rest = column;
      // From the last digit, the least significant.
      torch::Tensor product = torch::ones({1}, inputs[0].options());
      for (std::int64_t k = c.order(); k-- > 0;) {
        const auto slice =
            inputs[k].select(2, column_rest % c.col_digits[k]).select(1, row_rest % c.row_digits[k]);
        if (k + 1 < c.order()) product = product * inputs[c.order() + k];
        product = slice.matmul(product);
        row_rest /= c.row_digits[k];
        column_rest /= c.col_digits[k];
      }
      ASSERT_TRUE(close(rows[i][column], product[0], "entry")) << "token " << i << ", column " << column;
    }
}

TEST_P(TtmEmbedding, IsTheSameThroughTheDispatcher) {
  const TableCase& c = GetParam();
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const auto indices = make_indices(c, normal);
  const torch::TensorList all(inputs);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("comera::ttm_embedding", "");
  torch::jit::Stack stack{indices, all.slice(0, c.order()).vec(), all.slice(c.order()).vec(), c.rows};
  op.callBoxed(stack);
  EXPECT_TRUE(stack.at(0).toTensor().equal(fused(c, indices)(inputs)[0]));
}

INSTANTIATE_TEST_SUITE_P(Cases, TtmEmbedding, testing::ValuesIn(table_cases()), case_name<TableCase>);

TEST(TtmEmbeddingGradients, FrozenScalesOrCores) {
  const TableCase c{"plain", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {2, 5}};
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  const auto indices = make_indices(c, normal);
  const Tensors weights = weights_for(reference(c, indices), inputs, normal);
  const Evaluation all = evaluate(reference(c, indices), inputs, weights);
  for (const bool train_cores : {true, false}) {
    Tensors leaves, wanted, expected;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool wants = (static_cast<std::int64_t>(i) < c.order()) == train_cores;
      leaves.push_back(inputs[i].detach().requires_grad_(wants));
      if (!wants) continue;
      wanted.push_back(leaves[i]);
      expected.push_back(all.gradients[i]);
    }
    const Tensors gradients = torch::autograd::grad(fused(c, indices)(leaves), wanted, weights);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(close(gradients[i], expected[i], "gradient " + std::to_string(i)));
  }
}

TEST(TtmEmbeddingInput, IndicesThatAreNotContiguous) {
  const TableCase c{"plain", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {2, 5}};
  Normal normal(kSeed);
  const auto indices = make_indices(c, normal).t();
  const Tensors inputs = make_inputs(c, normal);
  expect_like_reference(fused(c, indices), reference(c, indices), inputs, normal);
}

TEST(TtmEmbeddingInput, BadIndicesAreRefusedWithPositionAndValue) {
  if (test_device().is_cuda()) GTEST_SKIP() << "CUDA refuses them in its own words";
  const TableCase c{"plain", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {}};
  Normal normal(kSeed);
  const Tensors inputs = make_inputs(c, normal);
  for (const auto type : {torch::kInt32, torch::kInt64})
    for (const auto& look_up : {ops::ttm_embedding, ops::reference::ttm_embedding}) {
      const auto message = [&](std::vector<std::int64_t> values) -> std::string {
        try {
          operator_of(c, torch::tensor(values).to(type), look_up)(inputs);
        } catch (const Error& error) {
          return error.what();
        }
        return "no error";
      };
      EXPECT_EQ(message({0, 19}), "no error");
      // 20..23 have digits, but no row.
      EXPECT_EQ(message({3, 0, 20}), "[ttm_embedding] index 20 at position 2 is outside the table's 20 rows");
      EXPECT_EQ(message({-1}), "[ttm_embedding] index -1 at position 0 is outside the table's 20 rows");
    }
}

TEST(TtmEmbeddingInput, CoresThatDoNotFitAreRefused) {
  const TableCase c{"plain", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {4}};
  Normal normal(kSeed);
  const auto indices = make_indices(c, normal);
  const Tensors good = make_inputs(c, normal);
  const auto with = [&](std::size_t i, torch::IntArrayRef sizes) {
    Tensors bad = good;
    bad[i] = normal(sizes);
    return bad;
  };
  EXPECT_THROW(fused(c, indices)(with(1, {3, 4, 3, 5})), Error);
  EXPECT_THROW(fused(c, indices)(with(2, {4, 2, 2, 2})), Error);
  EXPECT_THROW(fused(c, indices)(with(3, {4})), Error);
  EXPECT_THROW(fused(c, indices.to(torch::kFloat32))(good), Error);
  TableCase more = c;
  more.rows = 25;
  EXPECT_THROW(fused(more, indices)(good), Error);
}
