// The two chains of products that make A and B, forward and backward, below autograd.
#pragma once

#include <comera/weights/torch.h>

#include <array>
#include <cstdint>
#include <vector>

namespace comera::ops::build_factors_chains {

/// A [layers, in, r] and B [layers, r, out], then what the backward uses: the scaled cores of
/// positions 1..K-1, each of all layers in one tensor, and the inner partial products of both chains.
std::vector<torch::Tensor> forward(torch::TensorList cores, torch::TensorList scales, std::int64_t layers,
                                   std::int64_t split);

/// Gradients, each of all layers in one tensor: of the K cores if needed[0], then of the K - 1 scales if
/// needed[1]. `saved` is what forward returned after A and B.
std::vector<torch::Tensor> backward(const torch::Tensor& da, const torch::Tensor& db, torch::TensorList cores,
                                    torch::TensorList scales, torch::TensorList saved, std::int64_t layers,
                                    std::int64_t split, std::array<bool, 2> needed);

/// The same on tensors without values.
std::vector<torch::Tensor> forward_meta(torch::TensorList cores, torch::TensorList scales,
                                        std::int64_t layers, std::int64_t split);
std::vector<torch::Tensor> backward_meta(const torch::Tensor& da, const torch::Tensor& db,
                                         torch::TensorList cores, torch::TensorList scales,
                                         torch::TensorList saved, std::int64_t layers, std::int64_t split,
                                         std::array<bool, 2> needed);

}  // namespace comera::ops::build_factors_chains
