// Which ranks to keep when the model must fit a budget: least damage within so many parameters. No torch.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::rank {

/// One weight as the allocation sees it.
struct Candidate {
  std::vector<std::int64_t> modes;  ///< s_k, K entries
  std::vector<std::int64_t> ranks;  ///< present inner ranks, K - 1 entries: the most that may be kept
  std::vector<std::vector<double>>
      damage;  ///< [bond][r]: damage of keeping r ranks there, r = 0..present rank
};

/// sum_k s_k r_{k-1} r_k + sum_k r_k.
std::int64_t parameters_with(const std::vector<std::int64_t>& modes, const std::vector<std::int64_t>& ranks);

/// Largest ranks, at most `ranks`, that no neighbour makes useless: r_k <= s_k r_{k-1} and r_{k-1} <= s_k
/// r_k.
std::vector<std::int64_t> usable_ranks(const std::vector<std::int64_t>& modes,
                                       std::vector<std::int64_t> ranks);

/// For each candidate the inner ranks (1 or more) that keep the sum of damages small with all of them within
/// `budget` parameters: for a price mu of one parameter a dynamic programme over the bonds of each weight
/// gives the exact optimum of damage + mu x size; mu is bisected over the model; what is left of the budget
/// is spent where a rank saves most damage per parameter. Error when even rank 1 everywhere does not fit.
std::vector<std::vector<std::int64_t>> allocate(const std::vector<Candidate>& candidates,
                                                std::int64_t budget);

}  // namespace comera::rank
