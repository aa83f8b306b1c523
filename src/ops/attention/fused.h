// Attention on the CPU, block by block of queries.
#pragma once

#include <comera/kernels/dropout.h>

#include <torch/torch.h>

#include <optional>
#include <tuple>

namespace comera::ops {

/// What both directions need to know besides q, k and v.
struct AttentionOptions {
  std::int64_t heads = 1;
  std::optional<torch::Tensor> lengths;
  bool causal = false;
  kernels::KeepRule rule;
  torch::Tensor sample_ids;  ///< read only when the rule drops
};

/// fp32 or fp64 -> the result and the log-sums [batch, heads, positions].
std::tuple<torch::Tensor, torch::Tensor> fused_attention(const torch::Tensor& q, const torch::Tensor& k,
                                                         const torch::Tensor& v,
                                                         const AttentionOptions& options);

/// The gradients of q, k and v. Tasks own the slices they write and blocks follow a fixed order, so the
/// number of threads changes nothing.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> fused_attention_backward(
    const torch::Tensor& gradient, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
    const torch::Tensor& result, const torch::Tensor& log_sums, const AttentionOptions& options);

}  // namespace comera::ops
