// Unrooted binary trees over the leaves of a network. A message goes along each edge in both directions; the
// messages into the leaves are all results of the layer.
#pragma once

#include <comera/plan/contraction.h>
#include <comera/plan/network.h>

#include <functional>
#include <string>
#include <vector>

namespace comera::plan {

/// Written as rooted at the last leaf, dY: node i joins two of the leaves 0..N-2 and the nodes before it;
/// node ids are N + i. The last node's message is Y. One node has one form: the side with the lowest leaf is
/// left.
struct Tree {
  struct Node {
    int left = 0, right = 0;
    bool operator==(const Node&) const = default;
  };
  int leaves = 0;           ///< N, 3 or more
  std::vector<Node> nodes;  ///< N - 2

  bool operator==(const Tree&) const = default;
  bool is_leaf(int id) const { return id < leaves; }
  /// Leaves under each id, 2 N - 2 entries; that of dY alone is its own bit.
  std::vector<Leaves> sets() const;
};

/// Makes the tree from the sets of leaves of its nodes, in any order. Throws Error when they are no tree.
Tree tree_from_sets(int leaves, std::vector<Leaves> sets);
/// Throws Error unless the nodes form one tree in its one form.
void validate(const Tree& tree);

/// "((X G1) (G2 G3))".
std::string to_string(const Tree& tree, const Network& network);

/// Calls `visit` with each of the (2N-5)!! trees over N leaves.
void for_each_tree(int leaves, const std::function<void(const Tree&)>& visit);

/// (G1 G2 ..) left to right up to the split, the rest right to left, then (X A) B. split: cores of A.
Tree two_group_tree(int cores, int split);
/// ((X G1) G2) ..
Tree core_by_core_tree(int cores);

/// Cost of all results asked for: at each node the direction to dY, and the other two where something under
/// that side is wanted.
double tree_cost(const Network& network, const Openings& openings, const Tree& tree,
                 const Objective& objective);
/// The same of one node over the leaves `left` and `right`.
double node_cost(const Network& network, const Openings& openings, Leaves left, Leaves right,
                 const Objective& objective);

}  // namespace comera::plan
