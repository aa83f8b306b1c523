#include <comera/base/error.h>
#include <comera/plan/search.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <unordered_map>

namespace comera::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Calls visit(left, right) for each split of `set` in two; left has the lowest leaf.
template <class Visit>
void for_each_split(Leaves set, Visit visit) {
  const Leaves low = set & (~set + 1), rest = set ^ low;
  for (Leaves right = rest; right != 0; right = (right - 1) & rest) visit(set ^ right, right);
}

// The next cheapest tree of a set, one after the other, from the next cheapest of its parts: a heap a set of
// what may come next.
class Ranking {
 public:
  template <class Node>
  Ranking(Node node, const std::vector<double>& best) : best_(best) {
    node_ = node;
  }

  /// Cost of the tree of rank `rank` (0 is the cheapest), infinite when there are fewer.
  double cost(Leaves set, int rank) {
    if (std::has_single_bit(set)) return rank == 0 ? 0 : kInfinite;
    State& state = prepared(set);
    while (static_cast<int>(state.found.size()) <= rank && !state.next.empty()) {
      const Entry entry = state.next.top();
      state.next.pop();
      state.found.push_back(entry);
      push(state, entry, entry.left_rank, entry.right_rank + 1);
      if (entry.right_rank == 0) push(state, entry, entry.left_rank + 1, 0);
    }
    return rank < static_cast<int>(state.found.size()) ? state.found[rank].cost : kInfinite;
  }

  void collect(Leaves set, int rank, std::vector<Leaves>* nodes) {
    if (std::has_single_bit(set)) return;
    const Entry entry = states_.at(set)->found[rank];
    collect(entry.left, entry.left_rank, nodes);
    collect(set ^ entry.left, entry.right_rank, nodes);
    nodes->push_back(set);
  }

 private:
  struct Entry {
    double cost = 0;
    Leaves left = 0, right = 0;
    int left_rank = 0, right_rank = 0;
    double node = 0;
    // The order of equals is fixed, so that a search is repeatable.
    bool operator<(const Entry& other) const {
      if (cost != other.cost) return cost > other.cost;
      if (left != other.left) return left > other.left;
      return left_rank != other.left_rank ? left_rank > other.left_rank : right_rank > other.right_rank;
    }
  };
  struct State {
    std::vector<Entry> found;
    std::priority_queue<Entry> next;
  };

  State& prepared(Leaves set) {
    auto& state = states_[set];
    if (!state) {
      state = std::make_unique<State>();
      for_each_split(set, [&](Leaves left, Leaves right) {
        const double node = node_(left, right);
        state->next.push({best_[left] + best_[right] + node, left, right, 0, 0, node});
      });
    }
    return *state;
  }
  void push(State& state, const Entry& from, int left_rank, int right_rank) {
    const double cost_left = cost(from.left, left_rank), cost_right = cost(from.right, right_rank);
    if (cost_left + cost_right < kInfinite)
      state.next.push(
          {cost_left + cost_right + from.node, from.left, from.right, left_rank, right_rank, from.node});
  }

  std::function<double(Leaves, Leaves)> node_;
  const std::vector<double>& best_;
  std::unordered_map<Leaves, std::unique_ptr<State>> states_;
};

}  // namespace

TreeSearch::TreeSearch(const Network& network, const Objective& objective)
    : network_(network), objective_(objective), openings_(network) {
  const Leaves sets = Leaves{1} << (network.size() - 1);  // of all leaves but dY
  open_.resize(sets);
  elements_.resize(sets);
  best_.resize(sets);
  split_.resize(sets);
  bounds_.resize(sets);
  for (Leaves set = 1; set < sets; ++set) {
    open_[set] = openings_.open(set);
    elements_[set] = openings_.elements(open_[set]);
    if (!std::has_single_bit(set)) search(set);
  }
}

// Bounds of all splits first, cheaply; then in full the most promising, and of the rest what could still win.
void TreeSearch::search(Leaves set) {
  const Leaves wanted = network_.wanted;
  double lowest = kInfinite;
  Leaves first = 0;
  std::size_t count = 0;
  for_each_split(set, [&](Leaves left, Leaves right) {
    const int directions = 1 + ((left & wanted) != 0) + ((right & wanted) != 0);
    const double least = objective_.least(openings_.elements(open_[left] | open_[right]),
                                          elements_[left] + elements_[right] + elements_[set]);
    const double bound = best_[left] + best_[right] + directions * least;
    bounds_[count++] = bound;
    if (bound < lowest) lowest = bound, first = right;
  });
  const auto total = [&](Leaves right) {
    const Leaves left = set ^ right;
    return best_[left] + best_[right] + node(left, right);
  };
  check(first != 0, "[plan] the dimensions multiply past what can be counted");
  best_[set] = total(first);
  split_[set] = first;
  // Rounding may lift a bound over the cost it bounds.
  const double margin = 1 - 1e-12;
  count = 0;
  for_each_split(set, [&](Leaves, Leaves right) {
    if (bounds_[count++] * margin >= best_[set] || right == first) return;
    if (const double cost = total(right); cost < best_[set]) best_[set] = cost, split_[set] = right;
  });
}

void TreeSearch::collect(Leaves set, std::vector<Leaves>* nodes) const {
  if (std::has_single_bit(set)) return;
  collect(split_[set], nodes);
  collect(set ^ split_[set], nodes);
  nodes->push_back(set);
}

Found TreeSearch::cheapest() const {
  const Leaves all = network_.all() >> 1;
  std::vector<Leaves> nodes;
  collect(all, &nodes);
  return {tree_from_sets(network_.size(), std::move(nodes)), best_[all]};
}

Found TreeSearch::cheapest_joining(Leaves side) const {
  const Leaves all = network_.all() >> 1, rest = all & ~side;
  check(side != 0 && rest != 0 && (side & ~all) == 0, "[plan] the last node joins two sides of the leaves");
  std::vector<Leaves> nodes;
  collect(side, &nodes);
  collect(rest, &nodes);
  nodes.push_back(all);
  const double last = side & 1 ? node(side, rest) : node(rest, side);
  return {tree_from_sets(network_.size(), std::move(nodes)), best_[side] + best_[rest] + last};
}

std::vector<Found> TreeSearch::cheapest(int count) const {
  const Leaves all = network_.all() >> 1;
  Ranking ranking([this](Leaves left, Leaves right) { return node(left, right); }, best_);
  std::vector<Found> result;
  for (int rank = 0; rank < count; ++rank) {
    const double cost = ranking.cost(all, rank);
    if (cost == kInfinite) break;
    std::vector<Leaves> nodes;
    ranking.collect(all, rank, &nodes);
    result.push_back({tree_from_sets(network_.size(), std::move(nodes)), cost});
  }
  return result;
}

}  // namespace comera::plan
