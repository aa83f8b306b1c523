// A change of ranks with its real matrices: how cores, rank scales and optimiser moments follow it.
#pragma once

#include <comera/format/rank_change.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::weights {

/// What happens at bond k, between core k and core k+1. All tensors are fp64 on the CPU.
///
///   G_k     <- left_{k-1} G_k right_k        (products over the rank indices; nothing at the borders)
///   dL/dG_k <- gradient_left_{k-1} dL/dG_k gradient_right_k
///
/// Gradients go the other way. With A = G_1 D_1 .. G_k and B = G_{k+1} .. G_K around bond k, new sides are
/// A right_k and left_k B, and a gradient is D A^T (dL/dW) B^T D between its two bonds. So when right = D X
/// and left = Y D (with new scales of one), gradient_left = X^T and gradient_right = Y^T, with no division by
/// D; for a selection all four are the selection itself and D is selected too.
struct BondChange {
  format::RankChange change;
  torch::Tensor right;           ///< [old, new], on the right index of core k
  torch::Tensor left;            ///< [new, old], on the left index of core k + 1
  torch::Tensor gradient_right;  ///< [old, new], on the right index of gradients of core k
  torch::Tensor gradient_left;   ///< [new, old], on the left index of gradients of core k + 1
  torch::Tensor scales;          ///< [new], the new D_k
};

/// A weight whose ranks have just changed.
struct WeightChange {
  TensorTrain weight;               ///< as it is after the change
  std::vector<BondChange> changes;  ///< all its K - 1 bonds, in order
};

/// Cuts ranks by selection: `kept` holds for each bond the indices that stay, ascending. D is selected too,
/// so cutting ranks whose scale is zero leaves W as it is. One empty bond makes W zero, so it empties all
/// bonds.
std::vector<BondChange> slice(const TensorTrain& weight, const std::string& name,
                              const std::vector<std::vector<std::int64_t>>& kept);

/// One bond of a slice: new rank j continues old rank change.from[j] (none is new). `scales` [old].
BondChange select_ranks(format::RankChange change, const torch::Tensor& scales);

/// Cores and scales of `weight` follow the changes, through TensorTrain::replace.
void apply(TensorTrain weight, const std::vector<BondChange>& changes);

/// `left` [new, old] and `right` [old, new] on the rank indices of a core [r, .., r']; an undefined matrix
/// leaves its side alone. Computed in fp64, returned in the dtype and device of `core`.
torch::Tensor transform_core(const torch::Tensor& core, const torch::Tensor& left,
                             const torch::Tensor& right);

/// Moments of core `core`, shaped like it before the change. The first moment is mapped as a gradient. The
/// second is mapped by the squared matrices: exact where ranks are selected or scaled, and where they are
/// mixed what uncorrelated gradient entries would give (a weighted mean over the mixed slices).
torch::Tensor transform_first_moment(const torch::Tensor& moment, const std::vector<BondChange>& changes,
                                     std::int64_t core);
torch::Tensor transform_second_moment(const torch::Tensor& moment, const std::vector<BondChange>& changes,
                                      std::int64_t core);

/// Moments [old] of the rank scales of one bond. A rank that continues an old one keeps its moments; a new
/// one starts with first moment zero and the mean of the old second moments.
torch::Tensor transform_scale_first_moment(const torch::Tensor& moment, const BondChange& change);
torch::Tensor transform_scale_second_moment(const torch::Tensor& moment, const BondChange& change);

}  // namespace comera::weights
