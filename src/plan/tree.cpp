#include <comera/base/error.h>
#include <comera/plan/tree.h>

#include <algorithm>
#include <bit>
#include <map>

namespace comera::plan {
namespace {

Leaves leaf(int i) { return Leaves{1} << i; }

// Joins leaf `next` into every edge of the tree given by `sets` (its nodes, without the last leaf), then the
// leaves after it.
void insert(int next, int leaves, const std::vector<Leaves>& sets,
            const std::function<void(const Tree&)>& visit) {
  if (next == leaves - 1) {
    visit(tree_from_sets(leaves, sets));
    return;
  }
  std::vector<Leaves> edges = sets;
  for (int i = 0; i < next; ++i) edges.push_back(leaf(i));
  for (const Leaves edge : edges) {
    std::vector<Leaves> grown;
    for (const Leaves set : sets)
      grown.push_back((set & edge) == edge && set != edge ? set | leaf(next) : set);
    grown.push_back(edge | leaf(next));
    insert(next + 1, leaves, grown, visit);
  }
}

Tree from_joins(int leaves, const std::vector<std::pair<Leaves, Leaves>>& joins) {
  std::vector<Leaves> sets;
  for (const auto& [a, b] : joins) sets.push_back(a | b);
  return tree_from_sets(leaves, std::move(sets));
}

}  // namespace

std::vector<Leaves> Tree::sets() const {
  std::vector<Leaves> result(leaves + nodes.size());
  for (int i = 0; i < leaves; ++i) result[i] = leaf(i);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    result[leaves + i] = result[nodes[i].left] | result[nodes[i].right];
  return result;
}

Tree tree_from_sets(int leaves, std::vector<Leaves> sets) {
  check(leaves >= 3 && leaves < 32 && sets.size() == static_cast<std::size_t>(leaves - 2),
        "[tree] {} leaves are joined by {} nodes, got {}", leaves, leaves - 2, sets.size());
  // Smaller sets first, so that a node comes after those it joins; among equals the one with lower leaves.
  std::sort(sets.begin(), sets.end(), [](Leaves a, Leaves b) {
    const int na = std::popcount(a), nb = std::popcount(b);
    return na != nb ? na < nb : a < b;
  });
  Tree tree;
  tree.leaves = leaves;
  std::map<Leaves, int> tops;  // sets that are not yet joined
  for (int i = 0; i < leaves - 1; ++i) tops[leaf(i)] = i;
  for (const Leaves set : sets) {
    std::vector<std::pair<Leaves, int>> parts;
    for (const auto& top : tops)
      if ((top.first & set) == top.first) parts.push_back(top);
    check(parts.size() == 2 && (parts[0].first | parts[1].first) == set,
          "[tree] the nodes do not form a binary tree");
    if (std::countr_zero(parts[0].first) > std::countr_zero(parts[1].first)) std::swap(parts[0], parts[1]);
    tops.erase(parts[0].first);
    tops.erase(parts[1].first);
    tops[set] = leaves + static_cast<int>(tree.nodes.size());
    tree.nodes.push_back({parts[0].second, parts[1].second});
  }
  return tree;
}

void validate(const Tree& tree) {
  check(
      tree.leaves >= 3 && tree.leaves < 32 && tree.nodes.size() == static_cast<std::size_t>(tree.leaves - 2),
      "[tree] {} leaves are joined by {} nodes, got {}", tree.leaves, tree.leaves - 2, tree.nodes.size());
  for (std::size_t i = 0; i < tree.nodes.size(); ++i)
    for (const int id : {tree.nodes[i].left, tree.nodes[i].right})
      check(id >= 0 && id < tree.leaves + static_cast<int>(i) && id != tree.leaves - 1,
            "[tree] node {} joins {}, which is not before it", i, id);
  const auto sets = tree.sets();
  check(tree_from_sets(tree.leaves, {sets.begin() + tree.leaves, sets.end()}) == tree,
        "[tree] the nodes are not in their one form");
}

std::string to_string(const Tree& tree, const Network& network) {
  std::vector<std::string> text;
  for (const Leaf& leaf : network.leaves) text.push_back(leaf.name);
  for (const auto& node : tree.nodes)
    text.push_back(fmt::format("({} {})", text[node.left], text[node.right]));
  return text.back();
}

void for_each_tree(int leaves, const std::function<void(const Tree&)>& visit) {
  check(leaves >= 3 && leaves <= 10, "[tree] 3 to 10 leaves can be enumerated, got {}", leaves);
  insert(2, leaves, {leaf(0) | leaf(1)}, visit);
}

Tree two_group_tree(int cores, int split) {
  check(cores >= 2 && split >= 1 && split < cores, "[tree] {} cores cannot be split at {}", cores, split);
  std::vector<std::pair<Leaves, Leaves>> joins;
  Leaves a = leaf(1), b = leaf(cores);
  for (int k = 2; k <= split; ++k) joins.push_back({a, leaf(k)}), a |= leaf(k);
  for (int k = cores - 1; k > split; --k) joins.push_back({leaf(k), b}), b |= leaf(k);
  joins.push_back({leaf(0), a});
  joins.push_back({leaf(0) | a, b});
  return from_joins(cores + 2, joins);
}

Tree core_by_core_tree(int cores) {
  std::vector<std::pair<Leaves, Leaves>> joins;
  Leaves done = leaf(0);
  for (int k = 1; k <= cores; ++k) joins.push_back({done, leaf(k)}), done |= leaf(k);
  return from_joins(cores + 2, joins);
}

double node_cost(const Network& network, const Openings& openings, Leaves left, Leaves right,
                 const Objective& objective) {
  const Indices a = openings.open(left), b = openings.open(right), both = openings.open(left | right);
  const auto direction = [&](Indices one, Indices other, Indices result) {
    return objective.cost(best_way(openings, one, other, result, objective).work);
  };
  double cost = direction(a, b, both);
  if (left & network.wanted) cost += direction(both, b, a);
  if (right & network.wanted) cost += direction(both, a, b);
  return cost;
}

double tree_cost(const Network& network, const Openings& openings, const Tree& tree,
                 const Objective& objective) {
  check(tree.leaves == network.size(), "[tree] a tree over {} leaves for a network of {}", tree.leaves,
        network.size());
  const auto sets = tree.sets();
  double cost = 0;
  for (const auto& node : tree.nodes)
    cost += node_cost(network, openings, sets[node.left], sets[node.right], objective);
  return cost;
}

}  // namespace comera::plan
