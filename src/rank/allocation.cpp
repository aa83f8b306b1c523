#include "allocation.h"

#include <comera/base/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace comera::rank {
namespace {

using Ranks = std::vector<std::int64_t>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Ranks of one weight that minimise damage + price * parameters.
Ranks best_ranks(const Candidate& candidate, double price) {
  const auto& [modes, limits, damage] = candidate;
  const std::size_t bonds = limits.size();
  // cost[r - 1]: least cost of the cores up to bond k with r ranks there; from[k][r - 1]: rank at bond k - 1.
  std::vector<double> cost = {0};
  std::vector<Ranks> from(bonds);
  for (std::size_t k = 0; k < bonds; ++k) {
    std::vector<double> next(limits[k], kInfinite);
    from[k].assign(limits[k], 1);
    for (std::int64_t r = 1; r <= limits[k]; ++r) {
      const double slope = price * modes[k] * r;
      const std::int64_t previous = cost.size(), first = (r + modes[k] - 1) / modes[k];
      for (std::int64_t q = first; q <= previous && q <= modes[k] * r; ++q)
        if (const double total = cost[q - 1] + slope * q; total < next[r - 1]) {
          next[r - 1] = total;
          from[k][r - 1] = q;
        }
      next[r - 1] += damage[k][r] + price * r;
    }
    cost = std::move(next);
  }
  std::int64_t rank = 1;
  double least = kInfinite;
  for (std::int64_t r = 1; r <= static_cast<std::int64_t>(cost.size()) && r <= modes[bonds]; ++r)
    if (const double total = cost[r - 1] + price * modes[bonds] * r; total < least) {
      least = total;
      rank = r;
    }
  Ranks ranks(bonds);
  for (std::size_t k = bonds; k-- > 0;) {
    ranks[k] = rank;
    rank = from[k][rank - 1];
  }
  return ranks;
}

std::int64_t total_parameters(const std::vector<Candidate>& candidates, const std::vector<Ranks>& ranks) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) total += parameters_with(candidates[i].modes, ranks[i]);
  return total;
}

std::vector<Ranks> all_best(const std::vector<Candidate>& candidates, double price) {
  std::vector<Ranks> ranks;
  for (const Candidate& candidate : candidates) ranks.push_back(best_ranks(candidate, price));
  return ranks;
}

void spend(const std::vector<Candidate>& candidates, std::int64_t left, std::vector<Ranks>& ranks) {
  while (true) {
    double best = 0;
    std::size_t weight = 0, bond = 0;
    std::int64_t price = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      for (std::size_t k = 0; k < ranks[i].size(); ++k) {
        const std::int64_t r = ranks[i][k], before = k == 0 ? 1 : ranks[i][k - 1],
                           after = k + 1 == ranks[i].size() ? 1 : ranks[i][k + 1];
        const std::int64_t cost = candidate.modes[k] * before + candidate.modes[k + 1] * after + 1;
        if (r == candidate.ranks[k] || cost > left || r + 1 > candidate.modes[k] * before ||
            r + 1 > candidate.modes[k + 1] * after)
          continue;
        const double gain = (candidate.damage[k][r] - candidate.damage[k][r + 1]) / cost;
        if (gain > best) best = gain, weight = i, bond = k, price = cost;
      }
    }
    if (best == 0) return;
    ++ranks[weight][bond];
    left -= price;
  }
}

}  // namespace

std::int64_t parameters_with(const std::vector<std::int64_t>& modes, const std::vector<std::int64_t>& ranks) {
  std::int64_t total = 0, before = 1;
  for (std::size_t k = 0; k < modes.size(); ++k) {
    const std::int64_t after = k < ranks.size() ? ranks[k] : 1;
    total += before * modes[k] * after + (k < ranks.size() ? after : 0);
    before = after;
  }
  return total;
}

std::vector<std::int64_t> usable_ranks(const std::vector<std::int64_t>& modes,
                                       std::vector<std::int64_t> ranks) {
  std::int64_t before = 1;
  for (std::size_t k = 0; k < ranks.size(); ++k) before = ranks[k] = std::min(ranks[k], modes[k] * before);
  std::int64_t after = 1;
  for (std::size_t k = ranks.size(); k-- > 0;) after = ranks[k] = std::min(ranks[k], modes[k + 1] * after);
  return ranks;
}

std::vector<std::vector<std::int64_t>> allocate(const std::vector<Candidate>& candidates,
                                                std::int64_t budget) {
  std::vector<Ranks> smallest;
  for (const Candidate& candidate : candidates) smallest.push_back(Ranks(candidate.ranks.size(), 1));
  check(total_parameters(candidates, smallest) <= budget,
        "[rank] {} parameters are fewer than rank 1 everywhere needs ({})", budget,
        total_parameters(candidates, smallest));

  // The scale of mu: all damage there is, over all parameters.
  double all_damage = 0;
  for (const Candidate& candidate : candidates)
    for (const auto& of_bond : candidate.damage) all_damage += of_bond.empty() ? 0 : of_bond[0];
  const double unit = all_damage > 0 ? all_damage / static_cast<double>(budget) : 1.0;
  double low = unit * 1e-15, high = unit;
  std::vector<Ranks> best = all_best(candidates, low);
  if (total_parameters(candidates, best) > budget) {
    best = smallest;
    for (int doubling = 0; doubling < 200; ++doubling, low = high, high *= 4) {
      const std::vector<Ranks> ranks = all_best(candidates, high);
      if (total_parameters(candidates, ranks) <= budget) {
        best = ranks;
        break;
      }
    }
    for (int halving = 0; halving < 60 && high > low * (1 + 1e-9); ++halving) {
      const double middle = low < high / 4 ? std::sqrt(low * high) : 0.5 * (low + high);
      std::vector<Ranks> ranks = all_best(candidates, middle);
      const bool fits = total_parameters(candidates, ranks) <= budget;
      (fits ? high : low) = middle;
      if (fits) best = std::move(ranks);
    }
  }
  spend(candidates, budget - total_parameters(candidates, best), best);
  return best;
}

}  // namespace comera::rank
