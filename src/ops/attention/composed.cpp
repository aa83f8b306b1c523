#include "attention/composed.h"

#include <comera/kernels/dropout.h>

#include <cmath>
#include <limits>

namespace comera::ops {

using torch::Tensor;

std::tuple<Tensor, Tensor> composed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                              std::int64_t heads, const std::optional<Tensor>& lengths,
                                              bool causal, const Tensor& keep, double scale) {
  const std::int64_t batch = q.size(0), positions = q.size(1), d = q.size(2) / heads;
  const auto by_head = [&](const Tensor& x) {
    return x.reshape({batch, positions, heads, d}).transpose(1, 2);
  };
  const Tensor position = torch::arange(positions, q.options().dtype(torch::kInt64));
  const Tensor query = position.view({1, 1, -1, 1}), key = position.view({1, 1, 1, -1});
  Tensor visible = causal ? key <= query : key >= 0;  // [batch or 1, 1, queries or 1, keys]
  if (lengths) {
    const Tensor length = lengths->view({-1, 1, 1, 1});
    visible = visible.logical_and(key < length).logical_and(query < length);
  }
  // Softmax over the lowest finite number instead of -infinity: a row that sees nothing stays a number, which
  // the product with `visible` then makes 0.
  const double hidden = q.scalar_type() == torch::kFloat64 ? std::numeric_limits<double>::lowest()
                        : q.scalar_type() == torch::kHalf  ? -65504.0
                                                           : std::numeric_limits<float>::lowest() / 2;
  const Tensor scores =
      (torch::matmul(by_head(q), by_head(k).transpose(2, 3)) / std::sqrt(static_cast<double>(d)))
          .masked_fill(visible.logical_not(), hidden);
  Tensor probabilities = torch::softmax(scores, -1) * visible;
  if (keep.defined())
    probabilities = probabilities * keep.view({batch, positions, heads, positions}).transpose(1, 2) * scale;
  const Tensor result = torch::matmul(probabilities, by_head(v)).transpose(1, 2).reshape(q.sizes());
  const Tensor log_sums = torch::logsumexp(scores.detach(), -1).masked_fill(visible.any(-1).logical_not(), 0);
  return {result, log_sums};
}

Tensor reference::attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                            const std::optional<Tensor>& lengths, bool causal, const DropoutMask& mask) {
  const Tensor keep =
      mask.p == 0
          ? Tensor()
          : reference::dropout_keep(mask, q.size(1) * heads, q.size(1)).to(q.device(), q.scalar_type());
  return std::get<0>(composed_attention(q, k, v, heads, lengths, causal, keep,
                                        kernels::keep_rule(mask.p, mask.key).scale()));
}

}  // namespace comera::ops
