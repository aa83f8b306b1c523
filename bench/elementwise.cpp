// What the operators around the products cost in the reference step, beside what torch offers: medians of
// interleaved rounds of forward and backward, in milliseconds, nanoseconds an element and GB/s of the least
// possible traffic.
//   bench_elementwise [ROUNDS=7] [THREADS=2] [BATCH=32] [LENGTH=128]
#include <comera/base/machine.h>
#include <comera/kernels/isa.h>
#include <comera/ops/attention.h>
#include <comera/ops/dropout.h>
#include <comera/weights/torch.h>

#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

using namespace comera;
using torch::Tensor;

namespace {

constexpr std::int64_t kWidth = 768, kHeads = 12, kFfn = 3072;

struct Entry {
  std::string name;
  std::int64_t elements;       ///< of the largest tensor involved
  double passes;               ///< reads and writes of that many floats, forward and backward together
  std::function<void()> step;  ///< forward and backward once
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Forward of `function` over leaf inputs, then its backward from a fixed gradient.
std::function<void()> both_ways(std::vector<Tensor> inputs,
                                std::function<Tensor(std::vector<Tensor>&)> function) {
  for (Tensor& x : inputs) x = x.detach().requires_grad_(x.is_floating_point());
  const Tensor gradient = torch::randn_like(function(inputs));
  return [=]() mutable { torch::autograd::grad({function(inputs)}, inputs, {gradient}); };
}

Tensor torch_attention(const Tensor& q, const Tensor& k, const Tensor& v, double p) {
  const auto by_head = [](const Tensor& x) {
    return x.view({x.size(0), x.size(1), kHeads, -1}).transpose(1, 2);
  };
  return at::scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), std::nullopt, p)
      .transpose(1, 2)
      .reshape(q.sizes());
}

std::vector<Entry> entries(std::int64_t batch, std::int64_t length) {
  const Tensor x = torch::randn({batch, length, kWidth}), residual = torch::randn_like(x);
  const Tensor wide = torch::randn({batch, length, kFfn});
  const Tensor weight = torch::ones({kWidth}), bias = torch::zeros({kWidth});
  const ops::DropoutMask mask = {0.1, 12345, torch::arange(batch)};
  const std::int64_t hidden = x.numel(), inner = wide.numel();
  const std::int64_t scores = batch * kHeads * length * length;
  const auto attention = [=](const ops::DropoutMask& m) {
    return [=](std::vector<Tensor>& t) {
      return ops::attention(t[0], t[1], t[2], kHeads, std::nullopt, false, m);
    };
  };
  return {
      {"dropout", hidden, 4, both_ways({x}, [=](auto& t) { return ops::dropout(t[0], mask); })},
      {"dropout, torch", hidden, 4, both_ways({x}, [](auto& t) { return torch::dropout(t[0], 0.1, true); })},
      {"dropout + residual", hidden, 5,
       both_ways({x, residual}, [=](auto& t) { return ops::dropout_add(t[0], t[1], mask); })},
      {"dropout + residual, torch", hidden, 5,
       both_ways({x, residual}, [](auto& t) { return t[1] + torch::dropout(t[0], 0.1, true); })},
      {"gelu, torch", inner, 5, both_ways({wide}, [](auto& t) { return torch::gelu(t[0]); })},
      {"layer norm, torch", hidden, 5,
       both_ways({x, weight, bias},
                 [](auto& t) { return torch::layer_norm(t[0], {kWidth}, t[1], t[2], 1e-9); })},
      {"attention, dropout", scores, 0, both_ways({x, x, x}, attention(mask))},
      {"attention, no dropout", scores, 0, both_ways({x, x, x}, attention({}))},
      {"attention, torch, dropout", scores, 0,
       both_ways({x, x, x}, [](auto& t) { return torch_attention(t[0], t[1], t[2], 0.1); })},
      {"attention, torch, no dropout", scores, 0,
       both_ways({x, x, x}, [](auto& t) { return torch_attention(t[0], t[1], t[2], 0.0); })},
  };
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t otherwise) {
    return argc > i ? std::stoll(argv[i]) : otherwise;
  };
  const std::int64_t rounds = argument(1, 7), batch = argument(3, 32), length = argument(4, 128);
  torch::set_num_threads(static_cast<int>(argument(2, 2)));
  std::cout << fmt::format("{}, {}, {} threads, torch {}, {} x {} tokens, median of {} rounds\n", cpu_name(),
                           kernels::isa(), torch::get_num_threads(), TORCH_VERSION, batch, length, rounds);
  std::vector<Entry> all = entries(batch, length);
  for (std::int64_t round = -1; round < rounds; ++round)
    for (Entry& entry : all) {
      const auto start = std::chrono::steady_clock::now();
      entry.step();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (round >= 0) entry.seconds.push_back(seconds);
    }
  for (const Entry& entry : all) {
    const double seconds = median(entry.seconds), count = static_cast<double>(entry.elements);
    std::cout << fmt::format("  {:<30} {:8.2f} ms {:7.3f} ns/element", entry.name, seconds * 1e3,
                             seconds * 1e9 / count);
    if (entry.passes > 0) std::cout << fmt::format(" {:6.1f} GB/s", entry.passes * 4 * count / seconds / 1e9);
    std::cout << "\n";
  }
}
