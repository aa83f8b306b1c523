// Peak bytes of a tree: the order of its contractions, and what is saved for the backward or computed again.
#pragma once

#include <comera/plan/tree.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace comera::plan {

/// A thing to compute from two others. Ids index `bytes`.
struct Operation {
  int left = 0, right = 0, result = 0;
  double workspace = 0;  ///< bytes of copies that live while it runs
  double cost = 0;       ///< under the objective that compares trees
};

struct Job {
  std::vector<double> bytes;          ///< of every thing; 0 for what the caller holds
  std::vector<char> given;            ///< live at the start
  std::vector<char> kept;             ///< not freed after its last use
  std::vector<Operation> operations;  ///< at most 64; each result is made once
};

struct Order {
  std::vector<int> operations;
  double peak = 0;
  bool exact = true;  ///< false when the search was cut off and this is only the best known
};

constexpr std::size_t kMostStates = 100'000;

/// The order of the operations with the least peak, or none when no order stays at or below `limit`. What is
/// live while an operation runs: its operands, its result, its workspace, and all that is yet to be used.
/// After `most_states` sets of executed operations the search ends with a good order that need not be the
/// best.
std::optional<Order> least_peak(const Job& job, double limit, std::size_t most_states = kMostStates);

/// The contractions of a tree with their bytes and recomputations. Forward nodes other than the last may be
/// saved; a node that the backward needs and that is not saved is computed again, once.
class TreeMemory {
 public:
  /// `ways` chooses how each contraction runs, `trees` says what that costs.
  TreeMemory(const Network& network, const Openings& openings, const Tree& tree, const Objective& trees,
             const Objective& ways, double element_bytes);

  /// Nodes whose tensors the backward reads, bit i for node i; with nothing dropped, these are saved.
  std::uint32_t useful() const { return useful_; }
  /// Nodes that are computed again when `saved` are saved.
  std::uint32_t recomputed(std::uint32_t saved) const;
  /// Whether every saved node is used, directly or by a recomputation.
  bool sensible(std::uint32_t saved) const;

  /// Ids: leaves and nodes as in the tree; 2N - 2 + id for the message from dY's side into leaf or node id.
  Job forward(std::uint32_t saved) const;
  Job backward(std::uint32_t saved) const;
  int incoming(int id) const { return 2 * tree_.leaves - 2 + id; }

  /// At most the peak of any order and any choice of what is saved.
  double least() const { return least_; }
  /// Cost of all contractions, those computed again twice.
  double cost(std::uint32_t saved) const;

 private:
  Operation operation(int left, int right, int result, Indices left_open, Indices right_open,
                      Indices result_open) const;

  Tree tree_;
  const Openings& openings_;
  const Objective &trees_, &ways_;
  double element_;
  std::vector<double> bytes_;
  std::vector<Operation> forward_;  // by node
  std::vector<Operation> backward_;
  std::uint32_t useful_ = 0;
  double least_ = 0;
};

struct MemoryChoice {
  Tree tree;
  std::uint32_t saved = 0;  ///< nodes
  Order forward, backward;
  double peak = 0;
  double cost = 0;    ///< of the tree objective, recomputations included
  bool exact = true;  ///< false: an upper bound
};

constexpr int kExactLeaves = 8;
constexpr int kCandidateTrees = 32;

/// All useful nodes saved, the order with the least peak.
MemoryChoice everything_saved(const Network& network, const Tree& tree, const Objective& trees,
                              const Objective& ways, double element_bytes);
/// Only the nodes in `saved` saved. Throws Error when one of them has no use.
MemoryChoice with_saved(const Network& network, const Tree& tree, std::uint32_t saved, const Objective& trees,
                        const Objective& ways, double element_bytes);
/// Least peak over every tree, order and choice of what is saved, exact to 8 leaves; beyond, an upper bound
/// over the 32 cheapest trees.
MemoryChoice smallest_peak(const Network& network, const Objective& trees, const Objective& ways,
                           double element_bytes);
/// Least cost with a peak at or below `limit` bytes, or none. Exact to 8 leaves, like smallest_peak.
std::optional<MemoryChoice> cheapest_within(const Network& network, const Objective& trees,
                                            const Objective& ways, double element_bytes, double limit);

}  // namespace comera::plan
