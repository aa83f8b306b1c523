// Scaled dot-product attention with padding, causal mask and dropout; probabilities are neither stored nor
// re-read.
#pragma once

#include <comera/ops/dropout.h>

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace comera::ops {

/// q, k, v [batch, positions, heads * d] -> [batch, positions, heads * d]. lengths [batch] int64: keys at or
/// beyond the length of a sample get no weight (none = all positions are real); a sample of length 0 gives
/// zeros. causal: position t sees keys <= t. Dropout acts on the probabilities of (sample, head, query, key).
/// Saves q, k, v, the result and one log-sum a query. torch operator: comera::attention.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        std::int64_t heads, const std::optional<torch::Tensor>& lengths, bool causal,
                        const DropoutMask& mask);

namespace reference {
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        std::int64_t heads, const std::optional<torch::Tensor>& lengths, bool causal,
                        const DropoutMask& mask);
}

}  // namespace comera::ops
