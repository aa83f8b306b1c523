// Attention as ordinary tensor operations: the reference, and what devices without a kernel run.
#pragma once

#include <comera/ops/attention.h>

#include <tuple>

namespace comera::ops {

/// The result and the log-sums [batch, heads, positions] (0 for padding). keep: the mask with positions *
/// heads positions and `positions` features, or undefined for none; scale: what kept probabilities are
/// multiplied with.
std::tuple<torch::Tensor, torch::Tensor> composed_attention(const torch::Tensor& q, const torch::Tensor& k,
                                                            const torch::Tensor& v, std::int64_t heads,
                                                            const std::optional<torch::Tensor>& lengths,
                                                            bool causal, const torch::Tensor& keep,
                                                            double scale);

}  // namespace comera::ops
