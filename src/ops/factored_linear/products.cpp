#include "factored_linear/products.h"

#include "tasks.h"

#include <algorithm>

namespace comera::ops::factored_linear_products {
namespace {

// Rows a product takes at a time: a block of activations that was just written or read is still in cache for
// the product that needs it next.
constexpr std::int64_t kBlockRows = 512;

// The rows of x, cut by shape alone into strips that are computed independently. Sums over tokens are made a
// strip at a time and added in order. A strip is at least as long as the rank, so the partial sums of all
// strips together are never larger than x and dY.
struct Strips {
  std::int64_t tokens, count;

  Strips(const torch::Tensor& x, std::int64_t tokens, std::int64_t rank) : tokens(tokens), count(1) {
    constexpr std::int64_t kMostStrips = 16, kFewestRows = 64;
    if (x.is_cpu()) count = std::clamp<std::int64_t>(tokens / std::max(kFewestRows, rank), 1, kMostStrips);
  }
  std::int64_t begin(std::int64_t strip) const { return tokens * strip / count; }

  /// block(strip, first row, rows, whether it is the strip's first block)
  template <class Block>
  void for_each_block(bool on_cpu, const Block& block) const {
    const std::int64_t step = on_cpu ? kBlockRows : std::max<std::int64_t>(tokens, 1);
    run_tasks(count, on_cpu, [&](std::int64_t strip) {
      const std::int64_t first = begin(strip), last = begin(strip + 1);
      // An empty batch still has one block: the sums over no tokens are zeros.
      for (std::int64_t row = first; row < last || row == first; row += step)
        block(strip, row, std::min(step, last - row), row == first);
    });
  }
};

std::int64_t tokens_of(const torch::Tensor& x) {
  std::int64_t tokens = 1;
  for (const std::int64_t size : x.sizes().slice(0, x.dim() - 1)) tokens *= size;
  return tokens;
}

// [tokens, features] that a product takes as it is; copies only what no product can take.
torch::Tensor as_matrix(const torch::Tensor& x, std::int64_t tokens) {
  const std::int64_t features = x.size(-1);
  const auto matrix = x.reshape({tokens, features});
  const bool by_rows = matrix.stride(1) == 1 && matrix.stride(0) >= std::max<std::int64_t>(1, features);
  const bool by_columns = matrix.stride(0) == 1 && matrix.stride(1) >= std::max<std::int64_t>(1, tokens);
  return by_rows || by_columns ? matrix : matrix.contiguous();
}

std::vector<std::int64_t> output_sizes(const torch::Tensor& x, const torch::Tensor& b) {
  auto sizes = x.sizes().vec();
  sizes.back() = b.size(1);
  return sizes;
}

void multiply(torch::Tensor out, const torch::Tensor& left, const torch::Tensor& right) {
  at::mm_out(out, left, right);
}

// Adds to `sum`, or starts it.
void multiply_add(torch::Tensor sum, const torch::Tensor& left, const torch::Tensor& right, bool start) {
  if (start)
    at::mm_out(sum, left, right);
  else
    sum.addmm_(left, right);
}

torch::Tensor add_strips(const torch::Tensor& partial) {
  return partial.size(0) == 1 ? partial.squeeze(0) : partial.sum(0);
}

}  // namespace

std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x, const torch::Tensor& a,
                                                 const torch::Tensor& b,
                                                 const std::optional<torch::Tensor>& bias) {
  const std::int64_t tokens = tokens_of(x), rank = a.size(1);
  const auto rows = as_matrix(x, tokens);
  const auto factor = bias ? at::cat({b, bias->unsqueeze(0)}) : b;
  auto latent = x.new_empty({tokens, factor.size(0)});
  auto y = x.new_empty(output_sizes(x, b));
  auto y_rows = y.view({tokens, b.size(1)});
  if (bias) latent.narrow(1, rank, 1).fill_(1);
  Strips(x, tokens, rank)
      .for_each_block(x.is_cpu(), [&](std::int64_t, std::int64_t row, std::int64_t count, bool) {
        const auto latent_block = latent.narrow(0, row, count);
        multiply(latent_block.narrow(1, 0, rank), rows.narrow(0, row, count), a);
        multiply(y_rows.narrow(0, row, count), latent_block, factor);
      });
  return {y, latent};
}

Gradients backward(const torch::Tensor& dy, const torch::Tensor& x, const torch::Tensor& latent,
                   const torch::Tensor& a, const torch::Tensor& b, Needed needed) {
  const std::int64_t tokens = tokens_of(x), in = a.size(0), rank = a.size(1), out = b.size(1);
  const Strips strips(x, tokens, rank);
  const auto rows = needed[kA] ? as_matrix(x, tokens) : torch::Tensor();
  const auto dy_rows = as_matrix(dy, tokens);

  torch::Tensor dx, dx_rows, u, da_partial, db_partial;
  if (needed[kX] || needed[kA]) u = dy.new_empty({tokens, rank});
  if (needed[kX]) {
    dx = dy.new_empty(x.sizes());
    dx_rows = dx.view({tokens, in});
  }
  // dA is made as its transpose: libraries multiply [r, tokens] x [tokens, in] twice as fast as the other
  // way.
  if (needed[kA]) da_partial = dy.new_empty({strips.count, rank, in});
  // The rows of dB that are wanted: the factor's, the bias's behind them, or both.
  const std::int64_t first = needed[kB] ? 0 : rank, sums = (needed[kB] ? rank : 0) + (needed[kBias] ? 1 : 0);
  if (needed[kB] || needed[kBias]) db_partial = dy.new_empty({strips.count, sums, out});

  strips.for_each_block(
      dy.is_cpu(), [&](std::int64_t strip, std::int64_t row, std::int64_t count, bool start) {
        const auto dy_block = dy_rows.narrow(0, row, count);
        if (db_partial.defined()) {
          const auto left = latent.narrow(0, row, count).narrow(1, first, sums);
          multiply_add(db_partial.select(0, strip), left.t(), dy_block, start);
        }
        if (!u.defined()) return;
        const auto u_block = u.narrow(0, row, count);
        multiply(u_block, dy_block, b.t());
        if (needed[kX]) multiply(dx_rows.narrow(0, row, count), u_block, a.t());
        if (needed[kA])
          multiply_add(da_partial.select(0, strip), u_block.t(), rows.narrow(0, row, count), start);
      });

  torch::Tensor da, db, dbias;
  if (needed[kA]) da = add_strips(da_partial).t();
  if (db_partial.defined()) {
    const auto sum = add_strips(db_partial);
    if (needed[kB]) db = sum.narrow(0, 0, rank);
    if (needed[kBias]) dbias = sum.select(0, sums - 1);
  }
  return {dx, da, db, dbias};
}

std::tuple<torch::Tensor, torch::Tensor> forward_meta(const torch::Tensor& x, const torch::Tensor& a,
                                                      const torch::Tensor& b,
                                                      const std::optional<torch::Tensor>& bias) {
  return {x.new_empty(output_sizes(x, b)), x.new_empty({tokens_of(x), a.size(1) + (bias ? 1 : 0)})};
}

Gradients backward_meta(const torch::Tensor& dy, const torch::Tensor& x, const torch::Tensor&,
                        const torch::Tensor& a, const torch::Tensor& b, Needed needed) {
  const auto empty = [&](Input input, torch::IntArrayRef sizes) {
    return needed[input] ? dy.new_empty(sizes) : torch::Tensor();
  };
  const auto da = empty(kA, {a.size(1), a.size(0)});
  return {empty(kX, x.sizes()), needed[kA] ? da.t() : da, empty(kB, b.sizes()), empty(kBias, {b.size(1)})};
}

}  // namespace comera::ops::factored_linear_products
