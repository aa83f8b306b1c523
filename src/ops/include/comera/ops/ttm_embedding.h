// Look-up of rows of a table held as TTM cores.
#pragma once

#include <comera/weights/torch.h>

#include <cstdint>

namespace comera::ops {

/// Rows of the table: indices [...] int32 or int64 -> [..., n_1*..*n_K]. cores: K tensors [r_{k-1}, m_k, n_k,
/// r_k], scales: K - 1 tensors [r_k]. An index outside [0, rows) is an Error that names its position (CPU).
/// CPU: each distinct row once, prefixes and suffixes shared where that is cheaper; the gradient is summed
/// per distinct row in a fixed order. torch operator: comera::ttm_embedding.
torch::Tensor ttm_embedding(const torch::Tensor& indices, torch::TensorList cores, torch::TensorList scales,
                            std::int64_t rows);

namespace reference {
torch::Tensor ttm_embedding(const torch::Tensor& indices, torch::TensorList cores, torch::TensorList scales,
                            std::int64_t rows);
}

}  // namespace comera::ops
