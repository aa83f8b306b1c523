// Operators beside what they are made of: the same products as bare library calls into memory that is already
// there, and a dense table's look-up. Each row is timed in turn with its peer; medians of the repeats are
// printed.
//   bench_operators [THREADS [REPEATS [linear|factors|table]]]
#include <comera/ops/build_factors.h>
#include <comera/ops/factored_linear.h>
#include <comera/ops/ttm_embedding.h>
#include <comera/weights/torch.h>

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

using namespace comera;
using torch::Tensor;

namespace {

using Work = std::function<void()>;
using Sizes = std::vector<std::int64_t>;

double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

void compare(const std::string& name, int repeats, double flops, const Work& ours, const Work& peer) {
  std::vector<double> our_times, peer_times;
  for (int i = -2; i < repeats; ++i) {  // the first two warm caches up
    const double ours_now = seconds(ours), peer_now = seconds(peer);
    if (i < 0) continue;
    our_times.push_back(ours_now);
    peer_times.push_back(peer_now);
  }
  const double our = median(our_times), other = median(peer_times);
  fmt::print("{:44} {:9.3f} ms {:7.1f} GFLOP/s   peer {:9.3f} ms   peer/ours {:.2f}\n", name, our * 1e3,
             flops / our * 1e-9, other * 1e3, other / our);
}

void check_close(const Tensor& actual, const Tensor& expected) {
  TORCH_CHECK(at::allclose(actual, expected, 1e-3, 1e-3), "the operator and its peer disagree");
}

void linear(std::int64_t tokens, std::int64_t in, std::int64_t out, std::int64_t rank, int repeats) {
  const auto leaf = [](torch::IntArrayRef sizes) { return torch::randn(sizes).div_(8).requires_grad_(); };
  const Tensor x = leaf({tokens, in}), a = leaf({in, rank}), b = leaf({rank, out}), bias = leaf({out});
  const Tensor dy = torch::randn({tokens, out});
  const torch::NoGradGuard no_grad;
  Tensor latent = torch::empty({tokens, rank}), y = torch::empty({tokens, out}),
         u = torch::empty({tokens, rank});
  Tensor dx = torch::empty({tokens, in}), da = torch::empty({rank, in}), db = torch::empty({rank, out});
  const auto products_forward = [&] { at::mm_out(latent, x, a), at::mm_out(y, latent, b); };
  const auto products_backward = [&] {
    at::mm_out(u, dy, b.t()), at::mm_out(dx, u, a.t()), at::mm_out(da, u.t(), x),
        at::mm_out(db, latent.t(), dy);
  };
  const auto with_graph = [&] {
    const torch::AutoGradMode grad(true);
    return ops::factored_linear(x, a, b, bias);
  };
  products_forward(), products_backward();
  Tensor graph = with_graph();
  const auto gradients = torch::autograd::grad({graph}, {x, a, b}, {dy}, true);
  check_close(graph, y + bias), check_close(gradients[0], dx), check_close(gradients[1], da.t());
  check_close(gradients[2], db);

  const std::string name = fmt::format("linear {} x {} -> {}, rank {}", tokens, in, out, rank);
  const double flops = 2.0 * tokens * rank * (in + out);
  compare(
      name + ", forward", repeats, flops, [&] { ops::factored_linear(x, a, b, bias); }, products_forward);
  compare(
      name + ", backward", repeats, 2 * flops,
      [&] {
        torch::autograd::grad({graph}, {x, a, b, bias}, {dy}, true);
      },
      products_backward);
}

void factors(std::int64_t layers, const Sizes& modes, const Sizes& ranks, std::int64_t split, int repeats) {
  std::vector<Tensor> cores, scales;
  double flops = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (std::size_t k = 0; k < modes.size(); ++k) {
      cores.push_back(torch::randn({ranks[k], modes[k], ranks[k + 1]}).div_(4).requires_grad_());
      if (k > 0) scales.push_back(torch::ones({ranks[k]}, torch::requires_grad()));
    }
  std::vector<Tensor> leaves = cores;
  leaves.insert(leaves.end(), scales.begin(), scales.end());
  for (const bool left : {true, false}) {
    std::int64_t held = 1;
    for (std::int64_t i = 0; i < (left ? split : std::int64_t(modes.size()) - split); ++i) {
      const std::size_t k = left ? i : modes.size() - 1 - i;
      if (i > 0) flops += 2.0 * layers * held * ranks[k] * modes[k] * ranks[k + 1];
      held *= modes[k];
    }
  }
  const auto both = [&](auto build) {
    const auto [a, b] = build(cores, scales, layers, split);
    torch::autograd::grad({a.sum() + b.sum()}, leaves);
  };
  compare(
      fmt::format("factors of {} layers, forward + backward", layers), repeats, 3 * flops,
      [&] { both(ops::build_factors); }, [&] { both(ops::reference::build_factors); });
}

void table(std::int64_t rows, std::int64_t tokens, const Sizes& m, const Sizes& n, std::int64_t rank,
           int repeats) {
  std::vector<Tensor> cores, scales;
  std::int64_t columns = 1;
  for (std::size_t k = 0; k < m.size(); ++k) {
    const std::int64_t left = k == 0 ? 1 : rank, right = k + 1 == m.size() ? 1 : rank;
    cores.push_back(torch::randn({left, m[k], n[k], right}).div_(4).requires_grad_());
    if (k > 0) scales.push_back(torch::ones({rank}, torch::requires_grad()));
    columns *= n[k];
  }
  std::vector<Tensor> leaves = cores;
  leaves.insert(leaves.end(), scales.begin(), scales.end());
  const Tensor indices = torch::randint(rows, {tokens}), dy = torch::randn({tokens, columns});
  const Tensor dense = torch::randn({rows, columns}).requires_grad_();
  check_close(ops::ttm_embedding(indices, cores, scales, rows),
              ops::reference::ttm_embedding(indices, cores, scales, rows));
  const std::string name =
      fmt::format("table {} x {} of {} cores, {} tokens", rows, columns, m.size(), tokens);
  const double row_flops = 2.0 * tokens * columns * rank;
  const Tensor y = ops::ttm_embedding(indices, cores, scales, rows),
               dense_y = torch::embedding(dense, indices);
  compare(
      name + ", forward", repeats, row_flops, [&] { ops::ttm_embedding(indices, cores, scales, rows); },
      [&] { torch::embedding(dense, indices); });
  compare(
      name + ", backward", repeats, 2 * row_flops, [&] { torch::autograd::grad({y}, leaves, {dy}, true); },
      [&] { torch::autograd::grad({dense_y}, {dense}, {dy}, true); });
}

}  // namespace

int main(int argc, char** argv) {
  // As in training: freed blocks are kept, else most of the time goes into fresh pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 21;
  torch::manual_seed(1);
  fmt::print("{} threads, peers: bare products into existing memory, reference build, dense table\n",
             at::get_num_threads());
  const std::string only = argc > 3 ? argv[3] : "";
  if (only.empty() || only == "linear")
    for (const std::int64_t tokens : {128, 4096})
      for (const auto& [in, out] : {std::pair{768, 768}, std::pair{768, 3072}, std::pair{3072, 768}})
        linear(tokens, in, out, 30, repeats);
  if (only.empty() || only == "factors") {
    factors(25, {12, 8, 8, 8, 8, 12}, {1, 12, 30, 30, 30, 12, 1}, 3, repeats);
    factors(6, {12, 8, 8, 12, 16, 16}, {1, 12, 30, 30, 30, 16, 1}, 3, repeats);
  }
  if (only.empty() || only == "table") {
    for (const std::int64_t tokens : {128, 4096})
      table(30522, tokens, {16, 20, 10, 10}, {4, 4, 8, 6}, 32, repeats);
    table(30522, 4096, {30522, 1}, {1, 768}, 30, repeats);
  }
}
