// A plan: the contractions of one layer, forward and backward, in the order in which they run.
#pragma once

#include <comera/base/json.h>
#include <comera/plan/contraction.h>
#include <comera/plan/profile.h>
#include <comera/plan/tree.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace comera::plan {

/// What is planned; the key under which a plan is kept. The profile is no part of it: a plan in use stays.
struct Request {
  std::vector<format::Shape> layers;  ///< one, or several that share X and run as one (layer_network)
  std::int64_t tokens = 1;            ///< rows of X; see token_bucket
  Results results = Results::all;
  DType dtype = DType::float32;
  std::string device = "cpu";
  Goal goal = Goal::time;
  std::int64_t memory_limit = 0;  ///< bytes that peak_bytes may not pass; 0 = none

  bool operator==(const Request&) const = default;
};
std::uint64_t hash(const Request& request);

/// Something that a plan reads or makes. Ids are positions in Plan::tensors; the leaves come first.
struct Tensor {
  std::string name;     ///< "X", "G1", "[X G1 G2]", "Y", "dG1"
  Leaves leaves = 0;    ///< whose product it is
  Indices indices = 0;  ///< its dimensions, in ascending order
  std::int64_t bytes = 0;
  bool operator==(const Tensor&) const = default;
};

struct Product {
  std::int64_t batch = 1, m = 1, k = 1, n = 1;
  bool operator==(const Product&) const = default;
};

/// result[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n]; groups of indices and copies
/// as in Way. The result lies in ascending order of its indices.
struct Step {
  bool backward = false;    ///< runs once dY is there
  bool recomputed = false;  ///< makes a forward tensor again
  int left = 0, right = 0, result = 0;
  Indices batch = 0, m = 0, k = 0, n = 0;
  bool copy_left = false, copy_right = false, copy_result = false;
  Product product;
  std::int64_t multiply_adds = 0;
  std::int64_t bytes = 0;      ///< read + written, copies included
  std::int64_t workspace = 0;  ///< bytes of copies, live while the step runs
  double seconds = 0;          ///< predicted
  std::vector<int> frees;      ///< tensors that nothing later reads, given back after the step

  bool operator==(const Step&) const = default;
};

/// An immutable value. Bytes are those the plan allocates: X, the cores and dY are the caller's, and so is Y
/// once the forward is over. Gradients count until the end.
struct Plan {
  Request request;
  Network network;
  std::optional<Tree> tree;  ///< none when each result has a tree of its own
  std::vector<Tensor> tensors;
  std::vector<Step> steps;    ///< forward first
  std::vector<int> saved;     ///< tensors of the forward kept for the backward, ascending
  std::vector<int> results;   ///< by leaf: the tensor that is its gradient (of dY: Y), or -1 if not asked for
  std::int64_t forward = 0;   ///< multiply-adds, and so are the next two
  std::int64_t backward = 0;  ///< recomputations included
  std::int64_t total_multiply_adds = 0;
  std::int64_t bytes_moved = 0;
  std::int64_t saved_bytes = 0;
  std::int64_t forward_peak_bytes = 0, backward_peak_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< the larger of both
  bool peak_is_least = false;   ///< goal memory to 8 leaves; beyond, an upper bound
  double predicted_seconds = 0;

  bool operator==(const Plan&) const = default;
};

/// The best plan for the request. Throws Error for inconsistent shapes, products past 2^63, and a memory
/// limit that no plan meets, which names the smallest that would do (beyond 8 leaves: an upper bound of it).
Plan make_plan(const Request& request, const Profile& profile);

/// The plan that runs `tree` with everything saved, whatever the goal says of trees.
Plan plan_tree(const Request& request, const Tree& tree, const Profile& profile);
/// The same with only the nodes in `saved` kept (bit i for node i), the rest computed again.
Plan plan_tree(const Request& request, const Tree& tree, std::uint32_t saved, const Profile& profile);
/// Each result by the cheapest tree for it alone, nothing shared: what a path search an expression gives.
Plan plan_separately(const Request& request, const Profile& profile);

/// Other orders of the same layer, with the names "two groups", "core by core", "W rebuilt", "each alone",
/// and "dense", a plan of one core whose leaf "W" is [in, out].
using NamedPlans = std::vector<std::pair<std::string, Plan>>;
NamedPlans alternatives(const Request& request, const Profile& profile);

/// Table for people: each contraction, then totals and, when given, the alternatives beside the plan.
std::string to_string(const Plan& plan, const NamedPlans& alternatives = {});
Json to_json(const Plan& plan, const NamedPlans& alternatives = {});
/// Throws Error naming `source` unless everything in it is consistent: a plan that comes back can be run.
Plan plan_from_json(const Json& json, const std::string& source);
/// Throws Error naming `where` unless the steps compute the results of the request and all figures agree.
void validate(const Plan& plan, const std::string& where);

/// The tree as SVG: leaves named, edges labelled with their sizes, nodes with their multiply-adds. Throws
/// Error for a plan without a tree.
std::string draw_svg(const Plan& plan);

}  // namespace comera::plan
