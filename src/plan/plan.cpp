#include "plan_builder.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>
#include <comera/base/text.h>
#include <comera/plan/search.h>

#include <optional>

namespace comera::plan {
namespace {

MemoryChoice choose_for(const Request& request, const Network& network, const Objective& trees,
                        const Objective& ways) {
  const auto element = static_cast<double>(element_bytes(request.dtype));
  if (request.goal == Goal::memory) return smallest_peak(network, trees, ways, element);
  return everything_saved(network, TreeSearch(network, trees).cheapest().tree, trees, ways, element);
}

void check_request(const Request& request, const Profile& profile) {
  check(request.memory_limit >= 0, "[plan] a memory limit is a number of bytes or 0 for none, got {}",
        request.memory_limit);
  validate(profile, "profile");
}

}  // namespace

std::uint64_t hash(const Request& request) {
  std::uint64_t state = mix64(request.layers.size());
  const auto add = [&](std::uint64_t value) { state = mix64(state ^ value); };
  for (const format::Shape& shape : request.layers) add(format::hash(shape));
  add(static_cast<std::uint64_t>(request.tokens));
  add(static_cast<std::uint64_t>(request.results));
  add(static_cast<std::uint64_t>(request.dtype));
  add(hash_bytes(request.device));
  add(static_cast<std::uint64_t>(request.goal));
  add(static_cast<std::uint64_t>(request.memory_limit));
  return state;
}

Plan plan_choice(const Request& request, const MemoryChoice& choice, const Objective& ways,
                 const Profile& profile, bool dense) {
  PlanBuilder builder(request, network_of(request, dense), ways, profile);
  builder.tree(choice.tree);
  builder.add_tree(choice);
  Plan plan = builder.finish();
  plan.peak_is_least = request.goal == Goal::memory && choice.exact && choice.tree.leaves <= kExactLeaves;
  return plan;
}

namespace {

// `saved`: as for plan_tree; none: everything, and then the tree may also be the one of a dense layer.
Plan plan_given(const Request& request, const Tree& tree, std::optional<std::uint32_t> saved,
                const Profile& profile) {
  check_request(request, profile);
  validate(tree);
  const bool dense = !saved && tree.leaves == 3;
  const Network network = network_of(request, dense);
  check(tree.leaves == network.size(), "[plan] a tree over {} leaves for a network of {}", tree.leaves,
        network.size());
  const auto trees = tree_objective(request.goal, profile, request.dtype);
  const auto ways = way_objective(request.goal, profile, request.dtype);
  const auto element = static_cast<double>(element_bytes(request.dtype));
  const MemoryChoice choice = saved ? with_saved(network, tree, *saved, *trees, *ways, element)
                                    : everything_saved(network, tree, *trees, *ways, element);
  Plan plan = plan_choice(request, choice, *ways, profile, dense);
  plan.peak_is_least = false;
  return plan;
}

}  // namespace

Plan make_plan(const Request& request, const Profile& profile) {
  check_request(request, profile);
  const Network network = network_of(request, false);
  const auto trees = tree_objective(request.goal, profile, request.dtype);
  const auto ways = way_objective(request.goal, profile, request.dtype);
  const auto element = static_cast<double>(element_bytes(request.dtype));
  const Plan best = plan_choice(request, choose_for(request, network, *trees, *ways), *ways, profile);
  if (request.memory_limit == 0 || best.peak_bytes <= request.memory_limit) return best;

  // A dearer plan that fits: other trees, recomputation, and last fewer copies.
  const auto limit = static_cast<double>(request.memory_limit);
  const Workspace fewest_copies;
  for (const Objective* way :
       {static_cast<const Objective*>(ways.get()), static_cast<const Objective*>(&fewest_copies)}) {
    if (request.goal == Goal::memory) break;
    if (const auto choice = cheapest_within(network, *trees, *way, element, limit)) {
      Plan plan = plan_choice(request, *choice, *way, profile);
      plan.peak_is_least = false;
      return plan;
    }
  }
  const MemoryChoice smallest = smallest_peak(network, *trees, fewest_copies, element);
  const auto bytes = static_cast<std::int64_t>(smallest.peak);
  if (smallest.exact && network.size() <= kExactLeaves)
    fail("[plan] no plan stays within {} bytes; the smallest memory limit that one meets is {} bytes ({})",
         request.memory_limit, bytes, format_bytes(smallest.peak));
  fail(
      "[plan] no plan was found within {} bytes; a memory limit of {} bytes ({}) is met, an upper bound of "
      "the "
      "smallest",
      request.memory_limit, bytes, format_bytes(smallest.peak));
}

Plan plan_tree(const Request& request, const Tree& tree, const Profile& profile) {
  return plan_given(request, tree, std::nullopt, profile);
}

Plan plan_tree(const Request& request, const Tree& tree, std::uint32_t saved, const Profile& profile) {
  return plan_given(request, tree, saved, profile);
}

}  // namespace comera::plan
