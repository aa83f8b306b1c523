// Singular values of W at its bonds, and cuts to lower ranks by them. fp64, by QR and small SVDs: never the
// full tensor, never Gram matrices (whose eigenvalues resolve only sqrt(eps)).
#pragma once

#include <comera/weights/bond_change.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::weights {

/// Singular values of W (padding included) unfolded at each bond: K - 1 tensors [r_k], fp64 on the CPU,
/// descending; those beyond what the digits or the neighbouring ranks allow are zero. Cutting bond k to r
/// ranks, for all bonds, changes W by at most sqrt(sum_k sum_{j >= r_k} sigma_kj^2) in Frobenius norm.
std::vector<torch::Tensor> bond_singular_values(const TensorTrain& weight);

/// Cuts to the given K - 1 ranks, each at most the present one, by truncated SVD. At a bond that is cut the
/// singular values are split evenly into the neighbours and D becomes ones; other bonds stay as they are.
/// Cores keep the proportions of their norms, because learning rates and l2 prices are per core. Ranks beyond
/// what the neighbouring ranks allow come out as zeros. A rank of 0 makes the weight dead. A zero weight is
/// cut by selection.
std::vector<BondChange> round_to_ranks(const TensorTrain& weight, const std::string& name,
                                       const std::vector<std::int64_t>& ranks);

/// The ranks (floor 1) that cut the most ranks while the bound of bond_singular_values stays within
/// tolerance * ||W||_F: ||W - rounded||_F <= tolerance * ||W||_F.
std::vector<std::int64_t> ranks_for_tolerance(const TensorTrain& weight, double tolerance);

}  // namespace comera::weights
