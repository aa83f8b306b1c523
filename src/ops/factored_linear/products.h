// The products of factored_linear, forward and backward, below autograd.
#pragma once

#include <comera/weights/torch.h>

#include <array>
#include <optional>
#include <tuple>

namespace comera::ops::factored_linear_products {

/// Which gradients a backward has to make.
enum Input : std::size_t { kX, kA, kB, kBias };
using Needed = std::array<bool, 4>;

/// y [..., out] and the latent X A [tokens, r]. With a bias the latent has one more column, of ones, and B
/// one more row, the bias: the product adds it, and its gradient comes with dB, without a pass over y or dY.
std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x, const torch::Tensor& a,
                                                 const torch::Tensor& b,
                                                 const std::optional<torch::Tensor>& bias);
std::tuple<torch::Tensor, torch::Tensor> forward_meta(const torch::Tensor& x, const torch::Tensor& a,
                                                      const torch::Tensor& b,
                                                      const std::optional<torch::Tensor>& bias);

using Gradients = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>;
/// Gradients of x, a, b, bias; undefined where not needed. dA is laid out column by column.
Gradients backward(const torch::Tensor& dy, const torch::Tensor& x, const torch::Tensor& latent,
                   const torch::Tensor& a, const torch::Tensor& b, Needed needed);
Gradients backward_meta(const torch::Tensor& dy, const torch::Tensor& x, const torch::Tensor& latent,
                        const torch::Tensor& a, const torch::Tensor& b, Needed needed);

}  // namespace comera::ops::factored_linear_products
