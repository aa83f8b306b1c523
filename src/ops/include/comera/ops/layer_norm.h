// Layer norm over the last dimension. torch's own depends on the number of threads in its backward.
#pragma once

#include <comera/weights/torch.h>

namespace comera::ops {

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias: x [..., features], weight and bias [features],
/// one floating dtype and device; mean and (biased) variance are those of the last dimension. Gradients of
/// weight and bias are summed in blocks of 64 rows and the blocks in order. torch operator:
/// comera::layer_norm.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         double epsilon);

namespace reference {
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         double epsilon);
}  // namespace reference

}  // namespace comera::ops
