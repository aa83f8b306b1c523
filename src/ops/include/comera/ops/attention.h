// Scaled dot-product self-attention with padding, causal mask and dropout; probabilities are neither stored
// nor re-read.
#pragma once

#include <comera/ops/dropout.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <optional>

namespace comera::ops {

/// q, k, v [batch, positions, heads * d] -> [batch, positions, heads * d]. lengths [batch] int64 in [0,
/// positions]: positions at or beyond the length of a sample are padding, as keys they get no weight, as
/// queries they give zeros (none = all positions are real). causal: position t sees keys <= t. Dropout acts
/// on the probabilities; that of (sample, head, query, key) has the mask entry of position query * heads +
/// head and feature key. Saves q, k, v, the result and one log-sum a query; work and memory of padding are
/// not spent. CPU, fp32 and fp64: fused, first derivative only; elsewhere tensor operations. torch operator:
/// comera::attention.
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        std::int64_t heads, const std::optional<torch::Tensor>& lengths, bool causal,
                        const DropoutMask& mask);

namespace reference {
torch::Tensor attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        std::int64_t heads, const std::optional<torch::Tensor>& lengths, bool causal,
                        const DropoutMask& mask);
}

}  // namespace comera::ops
