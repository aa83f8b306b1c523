#include "plan_builder.h"

#include <comera/base/error.h>
#include <comera/plan/search.h>

#include <limits>

namespace comera::plan {

Plan plan_separately(const Request& request, const Profile& profile) {
  const Network network = network_of(request, false);
  const auto trees = tree_objective(request.goal, profile, request.dtype);
  const auto ways = way_objective(request.goal, profile, request.dtype);
  PlanBuilder builder(request, network, *ways, profile);
  const int root = network.root();
  const Leaves root_bit = Leaves{1} << root;
  // Y first, then the gradients, each over all other leaves.
  for (int i = 0; i <= root; ++i) {
    const int leaf = i == 0 ? root : i - 1;
    const Leaves leaf_bit = Leaves{1} << leaf;
    if (leaf != root && !(network.wanted & leaf_bit)) continue;
    const Network turned = rooted_at(network, leaf);
    const Tree tree = TreeSearch(turned, *trees).cheapest().tree;
    const Openings openings(turned);
    const TreeMemory memory(turned, openings, tree, *trees, *ways, 1);
    const Job job = memory.forward(0);
    const auto order = least_peak(job, std::numeric_limits<double>::infinity());
    const auto sets = tree.sets();
    std::vector<int> ids(2 * tree.leaves - 2, -1);
    for (int j = 0; j < tree.leaves; ++j) ids[j] = j == leaf ? root : j == root ? leaf : j;
    for (const int operation : order->operations) {
      const Operation& one = job.operations[operation];
      // Back to the network's own places.
      Leaves set = sets[one.result] & ~(leaf_bit | root_bit);
      if (sets[one.result] & leaf_bit) set |= root_bit;
      const bool last = one.result == 2 * tree.leaves - 3;
      std::string name;
      for (int j = 0; j < network.size(); ++j)
        if (set >> j & 1) name += fmt::format("{}{}", name.empty() ? "" : " ", network.leaves[j].name);
      if (last)
        name = leaf == root ? "Y" : fmt::format("d{}", network.leaves[leaf].name);
      else
        name = fmt::format("[{}]", name);
      ids[one.result] = builder.tensor(set, name);
      builder.step(ids[one.left], ids[one.right], ids[one.result], leaf != root, false);
    }
    builder.result(leaf, ids[2 * tree.leaves - 3]);
  }
  return builder.finish();
}

NamedPlans alternatives(const Request& request, const Profile& profile) {
  const format::Shape& shape = request.layers.at(0);
  const Network network = network_of(request, false);
  const auto trees = tree_objective(request.goal, profile, request.dtype);
  const int cores = static_cast<int>(shape.order());
  const Tree rebuilt = TreeSearch(network, *trees).cheapest_joining(1).tree;
  return {{"two groups", plan_tree(request, two_group_tree(cores, static_cast<int>(shape.split())), profile)},
          {"core by core", plan_tree(request, core_by_core_tree(cores), profile)},
          {"W rebuilt", plan_tree(request, rebuilt, profile)},
          {"each alone", plan_separately(request, profile)},
          {"dense", plan_tree(request, tree_from_sets(3, {3}), profile)}};
}

}  // namespace comera::plan
