// The batch-free half of a TT linear layer: cores to the two factors of its middle bond.
#pragma once

#include <comera/weights/torch.h>

#include <cstdint>
#include <tuple>

namespace comera::ops {

/// A = G_1 D_1 .. G_p D_p [layers, in, r] and B = G_{p+1} D_{p+1} .. G_K [layers, r, out] of `layers` layers
/// with equal shapes, in = product of the first `split` modes, r = middle rank. cores: layers * K tensors,
/// layer by layer, each [r_{k-1}, s_k, r_k]; scales: layers * (K - 1) tensors [r_k] (D_p goes into A). K >=
/// 2, 1 <= split < K; any rank >= 0. Differentiable; partial products are kept for the backward, which costs
/// no rebuild. torch operator: comera::build_factors.
std::tuple<torch::Tensor, torch::Tensor> build_factors(torch::TensorList cores, torch::TensorList scales,
                                                       std::int64_t layers, std::int64_t split);

namespace reference {
std::tuple<torch::Tensor, torch::Tensor> build_factors(torch::TensorList cores, torch::TensorList scales,
                                                       std::int64_t layers, std::int64_t split);
}

}  // namespace comera::ops
