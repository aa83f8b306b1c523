// Tensor-train algebra in fp64: decomposition, orthogonal form, bond singular values, rounding, rebuilding.
#pragma once

#include <comera/format/rank_change.h>
#include <comera/weights/tensor_train.h>

#include <torch/torch.h>

#include <vector>

namespace comera::weights {

struct Decomposition {
  std::vector<torch::Tensor> cores;  ///< fp64
  /// sqrt of the sum of all discarded singular values squared: an upper bound of ||W - rebuilt||_F.
  double error_bound = 0;
};
/// TT-SVD (TTM-SVD for tables) of `w` [rows, cols] into the digits of `digits` with ranks at most its ranks
/// and each truncation within tolerance * ||w||_F / sqrt(K-1). Padding rows and columns are zero.
Decomposition decompose(const torch::Tensor& w, const format::Shape& digits, double tolerance = 0);

/// W [rows, cols] without padding, rebuilt from cores and scales. Dead weights give zeros. The only place
/// that builds W. Differentiable (ordinary torch operations).
torch::Tensor materialize(const format::Shape& shape, const std::vector<torch::Tensor>& cores,
                          const std::vector<torch::Tensor>& scales);
torch::Tensor materialize(const TensorTrain& weight);

/// Singular values of W at every bond, descending, fp64, with the matrices that truncate there:
/// for bond k, cutting to r ranks replaces G_k D_k by G_k D_k right[:, :r] and G_{k+1} by left[:r, :]
/// G_{k+1}, sigma^(1/2) split evenly to both sides.
struct BondSpectrum {
  std::vector<torch::Tensor> sigma;  ///< K - 1 tensors, [min(r_k, admissible)]
};
BondSpectrum bond_spectrum(const TensorTrain& weight);

/// What a change of ranks does at one bond, with its real matrices. Cores become
/// G_k <- left_{k-1} . G_k . right_k (products over the rank indices), scales become `scales`: the product
/// right . diag(scales) . left takes the place of diag(old D_k). Moments follow through OptimiserState.
struct BondChange {
  format::RankChange change;
  torch::Tensor right;   ///< [old, new], applied to the right index of core k
  torch::Tensor left;    ///< [new, old], applied to the left index of core k + 1
  torch::Tensor scales;  ///< [new], the new D_k
};
/// Cuts ranks by selection: for each bond the indices that stay (ascending); D stays as it is. Values that
/// were multiplied by zero scales leave the result unchanged. right = left^T = the selection, without D. All
/// lists empty: the weight is dead afterwards.
std::vector<BondChange> slice(const TensorTrain& weight, const std::string& name,
                              const std::vector<std::vector<std::int64_t>>& kept);
/// Cuts to the given ranks (K - 1) by truncated SVD of the orthogonal form; D becomes ones, sigma is split
/// evenly into the neighbours. `from` is -1 throughout, at every bond: no new rank is one old index.
std::vector<BondChange> round_to_ranks(const TensorTrain& weight, const std::string& name,
                                       const std::vector<std::int64_t>& ranks);
/// Smallest ranks with ||W - rounded||_F <= tolerance * ||W||_F.
std::vector<std::int64_t> ranks_for_tolerance(const TensorTrain& weight, double tolerance);
/// Applies the changes (all bonds of one weight, in order) to cores and scales through replace().
void apply(TensorTrain weight, const std::vector<BondChange>& changes);

}  // namespace comera::weights
