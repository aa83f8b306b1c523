// Attention on the CPU, block by block of queries, fp32 and fp64.
#pragma once

#include "attention/options.h"

#include <tuple>

namespace comera::ops {

/// The result and the log-sums [batch, heads, positions].
std::tuple<torch::Tensor, torch::Tensor> fused_attention(const torch::Tensor& q, const torch::Tensor& k,
                                                         const torch::Tensor& v,
                                                         const AttentionOptions& options);

/// The gradients of q, k and v. Tasks own the slices they write and blocks follow a fixed order, so the
/// number of threads changes nothing.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> fused_attention_backward(
    const torch::Tensor& gradient, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
    const torch::Tensor& result, const torch::Tensor& log_sums, const AttentionOptions& options);

}  // namespace comera::ops
