// The per-token half of a TT, low-rank or block linear layer.
#pragma once

#include <comera/weights/torch.h>

#include <optional>

namespace comera::ops {

/// Y = (X A) B + bias: x [..., in], a [in, r], b [r, out], bias [out] or none, r >= 0. Never forms A B.
/// Saves x and X A; backward costs 3 products a factor. Gradients of a, b, bias are sums over all tokens.
/// torch operator: comera::factored_linear.
torch::Tensor factored_linear(const torch::Tensor& x, const torch::Tensor& a, const torch::Tensor& b,
                              const std::optional<torch::Tensor>& bias);

namespace reference {
torch::Tensor factored_linear(const torch::Tensor& x, const torch::Tensor& a, const torch::Tensor& b,
                              const std::optional<torch::Tensor>& bias);
}

}  // namespace comera::ops
