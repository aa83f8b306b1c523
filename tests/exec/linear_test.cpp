#include <comera/base/error.h>
#include <comera/exec/linear.h>
#include <comera/ops/build_factors.h>
#include <comera/ops/implementation.h>
#include <comera/weights/torch.h>

#include <allocation_probe.h>
#include <gtest/gtest.h>
#include <tolerance.h>

using namespace comera;
using namespace comera::test;

namespace {

weights::TensorTrain random_weight(format::Shape shape, std::uint64_t seed,
                                   torch::ScalarType type = torch::kFloat64) {
  weights::TensorTrain weight(std::move(shape), torch::TensorOptions(type).device(test_device()));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::NoGradGuard no_grad;
  for (auto& core : weight.cores()) core.copy_(at::randn(core.sizes(), generator));
  for (auto& scale : weight.scales()) scale.copy_(at::randn(scale.sizes(), generator));
  return weight;
}

torch::Tensor random(torch::IntArrayRef sizes, std::uint64_t seed, torch::ScalarType type = torch::kFloat64) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator).to(test_device(), type);
}

// W [rows, cols], built.
torch::Tensor dense(const weights::TensorTrain& weight) {
  const auto [a, b] =
      ops::reference::build_factors(weight.cores(), weight.scales(), 1, weight.shape().split());
  const auto w = a[0].matmul(b[0]);
  return w.slice(0, 0, weight.shape().rows).slice(1, 0, weight.shape().cols);
}

std::vector<torch::Tensor> parameters(const weights::TensorTrain& weight) {
  auto all = weight.cores();
  for (const auto& scale : weight.scales()) all.push_back(scale);
  return all;
}

format::Shape padded_shape() {
  format::Shape shape = format::tt({3, 4}, {2, 5}, {3, 4, 2});
  shape.rows = 11;
  shape.cols = 7;
  return shape;
}

}  // namespace

TEST(TtLinear, IsTheProductWithW) {
  for (const auto& shape : {format::tt({3, 4}, {2, 5}, {3, 4, 2}), format::tt({6}, {10}, {4}), padded_shape(),
                            format::tt({3, 4}, {2, 5}, {0})}) {
    SCOPED_TRACE(format::to_string(shape));
    const auto weight = random_weight(shape, 21);
    const auto x = random({5, shape.rows}, 22).requires_grad_(),
               bias = random({shape.cols}, 23).requires_grad_();
    auto inputs = parameters(weight);
    inputs.insert(inputs.end(), {x, bias});
    const auto dy = random({5, shape.cols}, 24);
    const auto actual = exec::tt_linear(x, weight, bias), expected = x.matmul(dense(weight)) + bias;
    EXPECT_TRUE(close(actual, expected, "y"));
    const auto gradients = torch::autograd::grad({actual}, inputs, {dy});
    const auto expected_gradients = torch::autograd::grad({expected}, inputs, {dy});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(close(gradients[i], expected_gradients[i], "gradient " + std::to_string(i)));
  }
}

TEST(BuildFactors, LayersBuiltTogetherAreThoseBuiltAlone) {
  const std::vector<weights::TensorTrain> weights{random_weight(padded_shape(), 25),
                                                  random_weight(padded_shape(), 26)};
  const auto [a, b] = exec::build_factors(weights);
  EXPECT_EQ(a.sizes(), (torch::IntArrayRef{2, 11, 4}));
  EXPECT_EQ(b.sizes(), (torch::IntArrayRef{2, 4, 7}));
  for (const std::int64_t layer : {0, 1})
    EXPECT_TRUE(
        close(a[layer].matmul(b[layer]), dense(weights[layer]), "W of layer " + std::to_string(layer)));
}

TEST(BuildFactors, UnequalShapesAreRefused) {
  EXPECT_THROW(exec::build_factors({}), Error);
  EXPECT_THROW(exec::build_factors({random_weight(format::tt({3, 4}, {2, 5}, {3, 4, 2}), 27),
                                    random_weight(format::tt({3, 4}, {2, 5}, {3, 3, 2}), 28)}),
               Error);
}

TEST(TtLinearMemory, WIsNeverBuilt) {
  if (ops::use_reference() || test_device().is_cuda())
    GTEST_SKIP() << "the reference and CUDA allocate in other ways";
  const auto shape = format::tt({12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16});
  const auto weight = random_weight(shape, 29, torch::kFloat32);
  const auto x = random({16, shape.rows}, 30, torch::kFloat32).requires_grad_();
  const auto bias = random({shape.cols}, 31, torch::kFloat32).requires_grad_();
  const std::int64_t w_bytes = shape.rows * shape.cols * static_cast<std::int64_t>(sizeof(float));

  const AllocationProbe probe;
  exec::tt_linear(x, weight, bias).square().sum().backward();
  EXPECT_LT(probe.counts().largest_bytes, w_bytes / 4);
  EXPECT_LT(probe.counts().peak_bytes, w_bytes / 2);
}

// The probe itself: what the test above relies on.
TEST(AllocationProbe, CountsWhatIsAllocatedAndFreed) {
  const auto before = torch::empty({1000});
  AllocationProbe probe;
  {
    const auto a = torch::empty({100}, torch::kFloat32), b = torch::empty({50}, torch::kFloat32);
    EXPECT_EQ(probe.counts().live_bytes, 600);
  }
  const auto c = torch::empty({25}, torch::kFloat32);
  EXPECT_EQ(probe.counts().count, 3);
  EXPECT_EQ(probe.counts().total_bytes, 700);
  EXPECT_EQ(probe.counts().peak_bytes, 600);
  EXPECT_EQ(probe.counts().largest_bytes, 400);
  EXPECT_EQ(probe.counts().live_bytes, 100);
  probe.reset();
  EXPECT_EQ(probe.counts().live_bytes, 0);
}
