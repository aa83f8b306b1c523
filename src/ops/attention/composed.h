// Attention as ordinary tensor operations: the reference, and what runs where there are no kernels.
#pragma once

#include "attention/options.h"

namespace comera::ops {

torch::Tensor composed_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options);

}  // namespace comera::ops
