// The cheapest trees by dynamic programming over sets of leaves: exact, 3^(K+1)/2 splits for K cores.
#pragma once

#include <comera/plan/tree.h>

#include <cstdint>
#include <vector>

namespace comera::plan {

struct Found {
  Tree tree;
  double cost = 0;
};

class TreeSearch {
 public:
  /// Runs the search. Keeps references to both arguments. All sets of leaves are tried, also those that are
  /// no interval of the chain: with a bond of rank 1 they can win.
  TreeSearch(const Network& network, const Objective& objective);

  Found cheapest() const;
  /// The cheapest tree whose last node joins exactly `side` with the rest: with side = X, W is built first.
  Found cheapest_joining(Leaves side) const;
  /// The `count` cheapest, in ascending order; fewer when there are fewer.
  std::vector<Found> cheapest(int count) const;

 private:
  double node(Leaves left, Leaves right) const {
    return node_cost(network_, openings_, left, right, objective_);
  }
  void search(Leaves set);
  void collect(Leaves set, std::vector<Leaves>* nodes) const;

  const Network& network_;
  const Objective& objective_;
  Openings openings_;
  std::vector<Indices> open_;
  std::vector<double> elements_, best_, bounds_;
  std::vector<Leaves> split_;
};

}  // namespace comera::plan
