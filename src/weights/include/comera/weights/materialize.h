// From cores back to a matrix: the only place that builds W.
#pragma once

#include <comera/format/shape.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <utility>
#include <vector>

namespace comera::weights {

/// Core k times D_k on its right rank index, for every bond; the last core as it is. Differentiable.
std::vector<torch::Tensor> fold_scales(const std::vector<torch::Tensor>& cores,
                                       const std::vector<torch::Tensor>& scales);

/// The two factors of a TT weight at its middle bond from folded cores, padding removed: A [rows, r], B [r,
/// cols].
std::pair<torch::Tensor, torch::Tensor> factors(const format::Shape& shape,
                                                const std::vector<torch::Tensor>& folded);

/// W [rows, cols] without padding, in the dtype of the cores. A dead weight gives zeros. Differentiable.
torch::Tensor materialize(const format::Shape& shape, const std::vector<torch::Tensor>& cores,
                          const std::vector<torch::Tensor>& scales);
torch::Tensor materialize(const TensorTrain& weight);

}  // namespace comera::weights
