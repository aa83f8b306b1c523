// How plans are put together: contractions in, tensors, steps and figures out.
#pragma once

#include <comera/plan/memory.h>
#include <comera/plan/plan.h>

#include <string>

namespace comera::plan {

/// The network of a request; with `dense`, that of one core W [in, out].
Network network_of(const Request& request, bool dense);

class PlanBuilder {
 public:
  /// `ways` chooses how each contraction runs.
  PlanBuilder(const Request& request, Network network, const Objective& ways, const Profile& profile);

  /// Makes room for the product of the leaves `set`; the tensor's id.
  int tensor(Leaves set, std::string name);
  /// Computes `result` from two tensors.
  void step(int left, int right, int result, bool backward, bool recomputed);
  /// Says that `tensor` is the gradient of leaf `leaf`, or Y for the last.
  void result(int leaf, int tensor) { plan_.results[leaf] = tensor; }
  /// Adds the steps of a tree in the orders of `choice`, and its results.
  void add_tree(const MemoryChoice& choice);
  void tree(Tree tree) { plan_.tree = std::move(tree); }
  Plan finish();

 private:
  Plan plan_;
  Openings openings_;
  const Objective& ways_;
  PredictedTime time_;
};

/// Sizes of a step's product, its bytes and workspace from its groups and copies.
void measure_step(const Plan& plan, Step* step);
/// Fills in what follows from the steps: what is freed when, what is saved, and all totals.
void derive(Plan* plan);

/// The plan of one choice. `dense`: see network_of.
Plan plan_choice(const Request& request, const MemoryChoice& choice, const Objective& ways,
                 const Profile& profile, bool dense = false);

}  // namespace comera::plan
