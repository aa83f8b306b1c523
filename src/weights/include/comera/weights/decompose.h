// From a matrix to cores: TT-SVD and TTM-SVD (Oseledets, Tensor-train decomposition, SISC 2011).
#pragma once

#include <comera/format/shape.h>
#include <comera/weights/torch.h>

#include <vector>

namespace comera::weights {

struct Decomposition {
  format::Shape shape;               ///< the digits asked for, with the ranks found
  std::vector<torch::Tensor> cores;  ///< fp64 on the CPU; rank scales are ones
  /// Square root of the sum of all discarded singular values squared: at least ||W - rebuilt||_F.
  double error_bound = 0;
};

/// `w` [rows, cols] in the digits of `limits`, with ranks at most its ranks. Each of the K - 1 truncations
/// discards at most tolerance * ||w||_F / sqrt(K - 1) as far as the ranks allow it. Padding is filled with
/// zeros. Singular values are split evenly into the neighbouring cores.
Decomposition decompose(const torch::Tensor& w, const format::Shape& limits, double tolerance = 0);

}  // namespace comera::weights
