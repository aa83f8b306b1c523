#include "double_train.h"

#include <comera/base/error.h>
#include <comera/weights/norms.h>
#include <comera/weights/rounding.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace comera::weights {
namespace {

using torch::Tensor;

// Singular values below this part of the largest are rounding errors.
constexpr double kNoise = 1e-14;

// For each bond the factor R [r_k, q] with G_{k+1} D_{k+1} .. G_K = R Q, Q with orthonormal rows.
std::vector<Tensor> right_factors(const DoubleTrain& train) {
  std::vector<Tensor> factors(train.scales.size());
  Tensor right = torch::ones({1, 1}, torch::kDouble);
  for (std::size_t k = train.scales.size(); k-- > 0;) {
    const Tensor core =
        k + 1 < train.scales.size() ? train.cores[k + 1] * train.scales[k + 1] : train.cores[k + 1];
    const Tensor unfolded = core.matmul(right).flatten(1);  // [r_k, s q]
    right = std::get<1>(torch::linalg_qr(unfolded.t(), "r")).t();
    factors[k] = right;
  }
  return factors;
}

// G_1 D_1 .. G_k [.., r_k] in an orthonormal basis of the columns of G_1 D_1 .. G_k D_k: [q, r_k]. `before`
// [q', r_{k-1}] is the same for the bond before, with its scales.
Tensor left_side(const Tensor& before, const Tensor& core, const Tensor& scale) {
  const Tensor unfolded = before.matmul(core.flatten(1)).reshape({-1, core.size(2)});
  return std::get<0>(torch::linalg_qr(unfolded * scale)).t().matmul(unfolded);
}

Tensor padded(const Tensor& matrix, std::int64_t rows, std::int64_t cols) {
  return torch::constant_pad_nd(matrix, {0, cols - matrix.size(1), 0, rows - matrix.size(0)});
}

std::vector<std::int64_t> first_indices(std::int64_t count) {
  std::vector<std::int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// The change at a bond whose left side is `side` [q, r], scales [r] and right factor `right` [r, q'], to the
// new rank of `change`; ranks beyond min(q, q') are zero. The left side in the basis of the kept singular
// vectors, [min(new rank, q, q'), r], goes to `kept_side`.
BondChange truncate(const Tensor& side, const Tensor& scale, const Tensor& right, format::RankChange change,
                    Tensor& kept_side) {
  const auto [u, sigma, vh] = torch::linalg_svd(side.mul(scale).matmul(right), false);
  const std::int64_t old_rank = change.old_rank, rank = change.new_rank(),
                     kept = std::min(rank, sigma.size(0));
  // The clamp keeps ranks whose singular value is rounding noise from being blown up.
  const Tensor half = sigma.narrow(0, 0, kept).clamp_min(kNoise * sigma[0].item<double>()).sqrt();
  const Tensor u_kept = u.narrow(1, 0, kept).t();
  const Tensor x = padded(right.matmul(vh.narrow(0, 0, kept).t()) / half, old_rank, rank);
  const Tensor y = padded(u_kept.matmul(side) / half.unsqueeze(1), rank, old_rank);
  kept_side = u_kept.matmul(side);
  return {std::move(change),
          scale.unsqueeze(1) * x,
          y * scale,
          y.t(),
          x.t(),
          torch::ones({rank}, torch::kDouble)};
}

double root_mean_square(const Tensor& core) { return core.square().mean().sqrt().item<double>(); }

// Moves one factor a bond between the neighbours of cut bonds, so that the root mean squares of the cores
// keep their proportions: within a run of cut bonds every core's changes by the same factor.
void keep_proportions(const DoubleTrain& train, std::vector<BondChange>& changes,
                      const std::vector<bool>& cut) {
  std::vector<double> growth;  // log of new by old root mean square
  for (std::size_t k = 0; k < train.cores.size(); ++k) {
    const Tensor changed = transform_core(train.cores[k], k > 0 ? changes[k - 1].left : Tensor(),
                                          k < changes.size() ? changes[k].right : Tensor());
    growth.push_back(std::log(root_mean_square(changed) / root_mean_square(train.cores[k])));
  }
  for (std::size_t first = 0; first < changes.size();) {
    if (!cut[first]) {
      ++first;
      continue;
    }
    std::size_t last = first;  // cores first .. last are joined by cut bonds
    while (last < changes.size() && cut[last]) ++last;
    const double mean =
        std::accumulate(growth.begin() + first, growth.begin() + last + 1, 0.0) / (last - first + 1);
    double log_factor = 0;
    for (std::size_t k = first; k < last; ++k) {
      log_factor += mean - growth[k];
      const double factor = std::exp(log_factor);
      changes[k].right *= factor;
      changes[k].gradient_left *= factor;
      changes[k].left /= factor;
      changes[k].gradient_right /= factor;
    }
    first = last;
  }
}

}  // namespace

std::vector<Tensor> bond_singular_values(const TensorTrain& weight) {
  const format::Shape& shape = weight.shape();
  if (shape.dead()) return std::vector<Tensor>(shape.bonds(), torch::empty({0}, torch::kDouble));
  const DoubleTrain train = in_double(weight, "bond_singular_values");
  const std::vector<Tensor> right = right_factors(train);
  std::vector<Tensor> sigma;
  Tensor before = torch::ones({1, 1}, torch::kDouble);
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    before = left_side(before, train.cores[k], train.scales[k]) * train.scales[k];
    const Tensor values = torch::linalg_svdvals(before.matmul(right[k]));
    sigma.push_back(torch::constant_pad_nd(values, {0, shape.rank(k) - values.size(0)}));
  }
  return sigma;
}

std::vector<BondChange> round_to_ranks(const TensorTrain& weight, const std::string& name,
                                       const std::vector<std::int64_t>& ranks) {
  const format::Shape& shape = weight.shape();
  check(static_cast<std::int64_t>(ranks.size()) == shape.bonds(),
        "[round_to_ranks] {} has {} bonds, got ranks {}", name, shape.bonds(), fmt::join(ranks, ","));
  bool dead = shape.dead();
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    check(ranks[k] >= 0 && ranks[k] <= shape.rank(k),
          "[round_to_ranks] bond {} of {} has {} ranks, cannot cut to {}", k, name, shape.rank(k), ranks[k]);
    dead = dead || ranks[k] == 0;
  }
  // A weight that is zero, or becomes so, has nothing to choose by.
  const auto first_ranks = [&] {
    std::vector<std::vector<std::int64_t>> kept;
    for (const std::int64_t rank : ranks) kept.push_back(first_indices(rank));
    return slice(weight, name, kept);
  };
  if (dead || shape.bonds() == 0) return first_ranks();
  const DoubleTrain train = in_double(weight, "round_to_ranks");
  const std::vector<Tensor> right = right_factors(train);
  if (train.cores[0].mul(train.scales[0]).matmul(right[0]).count_nonzero().item<std::int64_t>() == 0)
    return first_ranks();
  std::vector<BondChange> changes;
  std::vector<bool> cut;
  Tensor before = torch::ones({1, 1}, torch::kDouble);
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    const Tensor &scale = train.scales[k], side = left_side(before, train.cores[k], scale);
    cut.push_back(ranks[k] < shape.rank(k));
    if (cut[k]) {
      const format::RankChange change{name, k, shape.rank(k), std::vector<std::int64_t>(ranks[k], -1)};
      changes.push_back(truncate(side, scale, right[k], change, before));
    } else {
      changes.push_back(select_ranks({name, k, shape.rank(k), first_indices(ranks[k])}, scale));
      before = side;
    }
    before = before * scale;
  }
  keep_proportions(train, changes, cut);
  return changes;
}

std::vector<std::int64_t> ranks_for_tolerance(const TensorTrain& weight, double tolerance) {
  check(tolerance >= 0, "[ranks_for_tolerance] the tolerance must not be negative, got {}", tolerance);
  const format::Shape& shape = weight.shape();
  const std::vector<Tensor> sigma = bond_singular_values(weight);
  struct Rank {
    double squared;
    std::int64_t bond, index;
  };
  std::vector<Rank> candidates;
  for (std::int64_t k = 0; k < shape.bonds(); ++k)
    for (std::int64_t j = 1; j < shape.rank(k); ++j) {
      const double value = sigma[k][j].item<double>();
      candidates.push_back({value * value, k, j});
    }
  std::sort(candidates.begin(), candidates.end(), [](const Rank& a, const Rank& b) {
    return std::tuple(a.squared, -a.index, a.bond) < std::tuple(b.squared, -b.index, b.bond);
  });
  std::vector<std::int64_t> ranks(shape.ranks.begin() + 1, shape.ranks.end() - 1);
  const double allowed = tolerance * frobenius_norm(weight);
  double discarded = 0;
  for (const Rank& rank : candidates) {
    discarded += rank.squared;
    if (discarded > allowed * allowed) break;
    ranks[rank.bond] = rank.index;
  }
  // What the bond before and the mode cannot carry any more is zero by now.
  for (std::int64_t k = 1; k < shape.bonds(); ++k)
    ranks[k] = std::min(ranks[k], ranks[k - 1] * shape.mode(k));
  return ranks;
}

}  // namespace comera::weights
