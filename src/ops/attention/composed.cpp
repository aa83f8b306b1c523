#include "attention/composed.h"

#include <comera/kernels/dropout.h>
#include <comera/ops/attention.h>
#include <comera/ops/implementation.h>

#include <cmath>
#include <limits>

namespace comera::ops {
namespace {

using torch::Tensor;

/// keep: the dropout mask with positions * heads positions and `positions` features, or undefined for none.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
              const Tensor& keep) {
  const std::int64_t batch = q.size(0), positions = q.size(1), heads = options.heads, d = q.size(2) / heads;
  const auto by_head = [&](const Tensor& x) {
    return x.reshape({batch, positions, heads, d}).transpose(1, 2);
  };
  const Tensor position = torch::arange(positions, q.options().dtype(torch::kInt64));
  const Tensor query = position.view({1, 1, -1, 1}), key = position.view({1, 1, 1, -1});
  Tensor visible = options.causal ? key <= query : key >= 0;
  if (options.lengths) {
    const Tensor length = options.lengths->view({-1, 1, 1, 1});
    visible = visible.logical_and(key < length).logical_and(query < length);
  }
  // A finite number instead of -infinity: a query that sees nothing gets equal weights rather than NaN, and
  // the product with `visible` makes them 0.
  const double hidden =
      q.scalar_type() == torch::kFloat16 ? -65504.0 : std::numeric_limits<float>::lowest() / 2;
  const Tensor scores =
      torch::matmul(by_head(q), by_head(k).transpose(2, 3)) / std::sqrt(static_cast<double>(d));
  Tensor probabilities = torch::softmax(scores.masked_fill(visible.logical_not(), hidden), -1) * visible;
  if (keep.defined())
    probabilities = probabilities * keep.view({batch, positions, heads, positions}).transpose(1, 2) *
                    kernels::keep_rule(options.mask.p, options.mask.key).scale();
  return torch::matmul(probabilities, by_head(v)).transpose(1, 2).reshape(q.sizes());
}

}  // namespace

Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options) {
  if (use_reference())
    return reference::attention(q, k, v, options.heads, options.lengths, options.causal, options.mask);
  Tensor keep;
  if (options.mask.p > 0) keep = dropout_keep(options.mask, q.size(1) * options.heads, q.size(1));
  return attend(q, k, v, options, keep);
}

Tensor reference::attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                            const std::optional<Tensor>& lengths, bool causal, const DropoutMask& mask) {
  Tensor keep;
  if (mask.p > 0)
    keep = reference::dropout_keep(mask, q.size(1) * heads, q.size(1)).to(q.device(), q.scalar_type());
  return attend(q, k, v, {heads, lengths, causal, mask}, keep);
}

}  // namespace comera::ops
