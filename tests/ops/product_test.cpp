#include <comera/base/random.h>
#include <comera/ops/product.h>

#include <gtest/gtest.h>
#include <tolerance.h>

using namespace comera;
using namespace comera::test;

namespace {

struct Operand {
  torch::Tensor matrices;  // [batch, rows, cols], strided
  ops::Matrices view() const {
    return {matrices, matrices.size(0) > 1 ? matrices.stride(0) : 0, matrices.stride(1), matrices.stride(2)};
  }
};

// Matrices by rows, by columns, between others, or one for all of the batch.
Operand operand(std::int64_t batch, std::int64_t rows, std::int64_t cols, std::uint64_t way,
                torch::ScalarType type) {
  const auto options = torch::TensorOptions(type).device(test_device());
  switch (way) {
    case 0:
      return {torch::randn({batch, rows, cols}, options)};
    case 1:
      return {torch::randn({batch, cols, rows}, options).transpose(1, 2)};
    case 2:
      return {torch::randn({rows, batch, cols}, options).transpose(0, 1)};
    case 3:
      return {torch::randn({batch, rows + 1, cols + 3}, options).slice(1, 1).slice(2, 3)};
    default:
      return {torch::randn({rows, cols}, options).expand({batch, rows, cols})};
  }
}

void expect_product(std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n, std::uint64_t a_way,
                    std::uint64_t b_way, std::uint64_t c_way, torch::ScalarType type) {
  SCOPED_TRACE(fmt::format("{} of {} x {} x {}, ways {} {} {}", batch, m, k, n, a_way, b_way, c_way));
  const auto a = operand(batch, m, k, a_way, type), b = operand(batch, k, n, b_way, type),
             c = operand(batch, m, n, c_way, type);
  ops::product({batch, m, k, n}, c.view(), a.view(), b.view());
  EXPECT_TRUE(close(c.matrices, a.matrices.matmul(b.matrices), "product"));
}

}  // namespace

TEST(Product, OfEveryLayout) {
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat64, torch::kFloat32})
    for (std::uint64_t a = 0; a < 5; ++a)
      for (std::uint64_t b = 0; b < 5; ++b)
        for (std::uint64_t c = 0; c < 4; ++c) {
          expect_product(3, 5, 7, 11, a, b, c, type);
          expect_product(2, 1, 9, 13, a, b, c, type);
          expect_product(1, 6, 1, 17, a, b, c, type);
          expect_product(4, 19, 8, 1, a, b, c, type);
          expect_product(2, 1, 1, 1, a, b, c, type);
        }
}

TEST(Product, OfSizesThatAreCut) {
  torch::manual_seed(2);
  for (const std::uint64_t a : {0, 1, 4})
    for (const std::uint64_t b : {0, 1, 4}) {
      expect_product(1, 700, 50, 40, a, b, 0, torch::kFloat64);
      expect_product(1, 40, 50, 700, a, b, 1, torch::kFloat64);
      expect_product(1, 12, 20'000, 10, a, b, 3, torch::kFloat64);
      expect_product(2, 12, 20'000, 10, a, b, 1, torch::kFloat64);
      expect_product(3, 200, 30, 150, a, b, 2, torch::kFloat64);
      expect_product(1000, 8, 12, 16, a, b, 0, torch::kFloat64);
    }
}

TEST(Product, BitsDoNotDependOnThreads) {
  if (!test_device().is_cpu()) GTEST_SKIP();
  torch::manual_seed(3);
  const int threads = torch::get_num_threads();
  for (const auto& [batch, m, k, n] : std::vector<std::array<std::int64_t, 4>>{
           {1, 900, 64, 33}, {1, 12, 30'000, 12}, {5, 100, 100, 100}, {300, 12, 30, 20}}) {
    const auto a = operand(batch, m, k, 0, torch::kFloat32), b = operand(batch, k, n, 1, torch::kFloat32);
    std::vector<torch::Tensor> results;
    for (const int count : {1, 2, 5}) {
      torch::set_num_threads(count);
      const auto c = operand(batch, m, n, 0, torch::kFloat32);
      ops::product({batch, m, k, n}, c.view(), a.view(), b.view());
      results.push_back(c.matrices);
    }
    EXPECT_TRUE(torch::equal(results[0], results[1]) && torch::equal(results[0], results[2]));
  }
  torch::set_num_threads(threads);
}

TEST(PermutingCopy, IsWhatTorchDoes) {
  const std::uint64_t seed = 4;
  RandomStream random(seed);
  SCOPED_TRACE(fmt::format("seed {}", seed));
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<std::int64_t> sizes;
    std::vector<int> order;
    const int dimensions = 1 + static_cast<int>(random.below(5));
    for (int d = 0; d < dimensions; ++d) {
      sizes.push_back(std::vector<std::int64_t>{1, 2, 3, 7, 33, 70}[random.below(dimensions > 3 ? 4 : 6)]);
      order.insert(order.begin() + random.below(order.size() + 1), d);
    }
    const auto type = std::vector{torch::kFloat32, torch::kFloat64, torch::kBFloat16}[random.below(3)];
    const auto from = torch::randn(sizes, torch::TensorOptions(type).device(test_device()));
    const auto expected = from.permute(std::vector<std::int64_t>(order.begin(), order.end())).contiguous();
    const auto to = torch::empty_like(expected);
    ops::permuting_copy(to, from, sizes, order);
    EXPECT_TRUE(torch::equal(to, expected))
        << fmt::format("{} by {}", fmt::join(sizes, ","), fmt::join(order, ","));
  }
}
