// The look-up and its gradients below autograd. CPU, float or double, two or more cores.
#pragma once

#include <comera/weights/torch.h>

#include <array>
#include <cstdint>
#include <vector>

namespace comera::ops::ttm_products {

torch::Tensor forward(const torch::Tensor& indices, torch::TensorList cores, torch::TensorList scales);

/// Gradients of the cores if needed[0], then of the scales if needed[1].
std::vector<torch::Tensor> backward(const torch::Tensor& dy, const torch::Tensor& indices,
                                    torch::TensorList cores, torch::TensorList scales,
                                    std::array<bool, 2> needed);

/// The same on tensors without values.
torch::Tensor forward_meta(const torch::Tensor& indices, torch::TensorList cores);
std::vector<torch::Tensor> backward_meta(const torch::Tensor& dy, const torch::Tensor& indices,
                                         torch::TensorList cores, torch::TensorList scales,
                                         std::array<bool, 2> needed);

}  // namespace comera::ops::ttm_products
