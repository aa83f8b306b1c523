#include <comera/base/error.h>
#include <comera/plan/memory.h>
#include <comera/plan/search.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace comera::plan {
namespace {

// The many trials of greedy choices are cut off early; what they end with is ordered in full.
constexpr std::size_t kTrialStates = 1000;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Both orders under one choice of what is saved, or none at or below the limit.
std::optional<MemoryChoice> choose(const TreeMemory& memory, const Tree& tree, std::uint32_t saved,
                                   double limit, std::size_t most_states = kMostStates) {
  auto forward = least_peak(memory.forward(saved), limit);
  if (!forward) return std::nullopt;
  auto backward = least_peak(memory.backward(saved), limit, most_states);
  if (!backward) return std::nullopt;
  MemoryChoice choice{tree, saved, std::move(*forward), std::move(*backward), 0, memory.cost(saved), true};
  choice.peak = std::max(choice.forward.peak, choice.backward.peak);
  choice.exact = choice.forward.exact && choice.backward.exact;
  return choice;
}

// Every sensible choice of what is saved, the cheapest first.
std::vector<std::uint32_t> choices(const TreeMemory& memory, std::uint32_t nodes) {
  std::vector<std::pair<double, std::uint32_t>> found;
  for (std::uint32_t saved = nodes;; saved = (saved - 1) & nodes) {
    if (memory.sensible(saved)) found.push_back({memory.cost(saved), saved});
    if (saved == 0) break;
  }
  std::sort(found.begin(), found.end());
  std::vector<std::uint32_t> result;
  for (const auto& entry : found) result.push_back(entry.second);
  return result;
}

// Drops the node whose recomputation lowers the peak most, as long as one does and the peak is above
// `enough`.
MemoryChoice drop_greedily(const TreeMemory& memory, const Tree& tree, double enough) {
  MemoryChoice best = *choose(memory, tree, memory.useful(), kNoLimit, kTrialStates);
  for (bool better = true; better && best.peak > enough;) {
    better = false;
    const MemoryChoice from = best;
    for (std::uint32_t rest = from.saved; rest != 0; rest &= rest - 1) {
      const std::uint32_t saved = from.saved & ~(rest & (~rest + 1));
      const auto choice = choose(memory, tree, saved, best.peak, kTrialStates);
      if (choice && (choice->peak < best.peak)) best = *choice, better = true;
    }
  }
  if (auto ordered = choose(memory, tree, best.saved, best.peak)) best = std::move(*ordered);
  best.exact = false;
  return best;
}

struct Candidate {
  Tree tree;
  double cost = 0, least = 0;
};

// All trees, or beyond 8 leaves the cheapest.
std::vector<Candidate> candidates(const Network& network, const Openings& openings, const Objective& trees,
                                  const Objective& ways, double element) {
  std::vector<Candidate> result;
  const auto add = [&](const Tree& tree) {
    const TreeMemory memory(network, openings, tree, trees, ways, element);
    result.push_back({tree, memory.cost(memory.useful()), memory.least()});
  };
  if (network.size() <= kExactLeaves) {
    for_each_tree(network.size(), add);
  } else {
    for (const Found& found : TreeSearch(network, trees).cheapest(kCandidateTrees)) add(found.tree);
  }
  return result;
}

}  // namespace

TreeMemory::TreeMemory(const Network& network, const Openings& openings, const Tree& tree,
                       const Objective& trees, const Objective& ways, double element_bytes)
    : tree_(tree), openings_(openings), trees_(trees), ways_(ways), element_(element_bytes) {
  const int leaves = tree.leaves, ids = 2 * leaves - 2;
  const auto sets = tree.sets();
  std::vector<Indices> open(ids);
  bytes_.assign(2 * ids, 0.0);
  double gradients = 0;
  for (int id = 0; id < ids; ++id) {
    open[id] = openings.open(sets[id]);
    const double bytes = element_ * openings.elements(open[id]);
    if (!tree.is_leaf(id)) bytes_[id] = bytes;
    if (id == ids - 1) continue;  // dY
    bytes_[incoming(id)] = bytes;
    if (tree.is_leaf(id) && (network.wanted >> id & 1)) gradients += bytes;
  }
  least_ = gradients;
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    const auto& node = tree.nodes[i];
    const int id = leaves + static_cast<int>(i);
    forward_.push_back(operation(node.left, node.right, id, open[node.left], open[node.right], open[id]));
  }
  for (int i = static_cast<int>(tree.nodes.size()) - 1; i >= 0; --i) {
    const auto& node = tree.nodes[i];
    const int id = leaves + i;
    for (const auto& [into, other] : {std::pair{node.left, node.right}, {node.right, node.left}}) {
      if ((sets[into] & network.wanted) == 0) continue;
      backward_.push_back(operation(incoming(id), other, incoming(into), open[id], open[other], open[into]));
      if (!tree.is_leaf(other)) useful_ |= 1u << (other - leaves);
    }
  }
  for (const auto* list : {&forward_, &backward_})
    for (const Operation& one : *list)
      least_ = std::max(least_, bytes_[one.left] + bytes_[one.right] + bytes_[one.result] + one.workspace);
}

Operation TreeMemory::operation(int left, int right, int result, Indices left_open, Indices right_open,
                                Indices result_open) const {
  const Way way = best_way(openings_, left_open, right_open, result_open, ways_);
  return {left, right, result, element_ * way.work.copied, trees_.cost(way.work)};
}

std::uint32_t TreeMemory::recomputed(std::uint32_t saved) const {
  std::uint32_t result = 0, open = useful_ & ~saved;
  while (open != 0) {
    const int i = std::countr_zero(open);
    open &= open - 1;
    result |= 1u << i;
    for (const int id : {tree_.nodes[i].left, tree_.nodes[i].right})
      if (!tree_.is_leaf(id)) open |= (1u << (id - tree_.leaves)) & ~saved & ~result;
  }
  return result;
}

bool TreeMemory::sensible(std::uint32_t saved) const {
  std::uint32_t used = useful_;
  for (std::uint32_t again = recomputed(saved); again != 0; again &= again - 1) {
    const auto& node = tree_.nodes[std::countr_zero(again)];
    for (const int id : {node.left, node.right})
      if (!tree_.is_leaf(id)) used |= 1u << (id - tree_.leaves);
  }
  return (saved & ~used) == 0;
}

double TreeMemory::cost(std::uint32_t saved) const {
  double cost = 0;
  for (const auto* list : {&forward_, &backward_})
    for (const Operation& one : *list) cost += one.cost;
  for (std::uint32_t again = recomputed(saved); again != 0; again &= again - 1)
    cost += forward_[std::countr_zero(again)].cost;
  return cost;
}

Job TreeMemory::forward(std::uint32_t saved) const {
  Job job{bytes_, std::vector<char>(bytes_.size()), std::vector<char>(bytes_.size()), forward_};
  std::fill_n(job.given.begin(), tree_.leaves, 1);
  for (std::size_t i = 0; i < forward_.size(); ++i) job.kept[tree_.leaves + i] = saved >> i & 1;
  job.kept[tree_.leaves + forward_.size() - 1] = 1;  // Y
  return job;
}

Job TreeMemory::backward(std::uint32_t saved) const {
  Job job{bytes_, std::vector<char>(bytes_.size()), std::vector<char>(bytes_.size()), {}};
  std::fill_n(job.given.begin(), tree_.leaves, 1);
  job.given[incoming(2 * tree_.leaves - 3)] = 1;  // dY, the caller's: 0 bytes
  for (std::size_t i = 0; i < forward_.size(); ++i) job.given[tree_.leaves + i] = saved >> i & 1;
  for (int i = 0; i < tree_.leaves - 1; ++i) job.kept[incoming(i)] = 1;
  const std::uint32_t again = recomputed(saved);
  for (std::size_t i = 0; i < forward_.size(); ++i)
    if (again >> i & 1) job.operations.push_back(forward_[i]);
  job.operations.insert(job.operations.end(), backward_.begin(), backward_.end());
  return job;
}

MemoryChoice everything_saved(const Network& network, const Tree& tree, const Objective& trees,
                              const Objective& ways, double element_bytes) {
  const Openings openings(network);
  const TreeMemory memory(network, openings, tree, trees, ways, element_bytes);
  return *choose(memory, tree, memory.useful(), kNoLimit);
}

MemoryChoice with_saved(const Network& network, const Tree& tree, std::uint32_t saved, const Objective& trees,
                        const Objective& ways, double element_bytes) {
  const Openings openings(network);
  const TreeMemory memory(network, openings, tree, trees, ways, element_bytes);
  check(saved >> (tree.nodes.size() - 1) == 0 && memory.sensible(saved),
        "[plan] a tensor is saved that nothing uses");
  return *choose(memory, tree, saved, kNoLimit);
}

MemoryChoice smallest_peak(const Network& network, const Objective& trees, const Objective& ways,
                           double element_bytes) {
  const Openings openings(network);
  const bool exact = network.size() <= kExactLeaves;
  auto trees_to_try = candidates(network, openings, trees, ways, element_bytes);
  std::stable_sort(trees_to_try.begin(), trees_to_try.end(), [](const Candidate& a, const Candidate& b) {
    return a.least != b.least ? a.least < b.least : a.cost < b.cost;
  });
  std::optional<MemoryChoice> best;
  const auto better = [&](const MemoryChoice& choice) {
    return !best || choice.peak < best->peak || (choice.peak == best->peak && choice.cost < best->cost);
  };
  for (const Candidate& candidate : trees_to_try) {
    if (best &&
        (candidate.least > best->peak || (candidate.least == best->peak && candidate.cost >= best->cost)))
      continue;
    const TreeMemory memory(network, openings, candidate.tree, trees, ways, element_bytes);
    if (!exact) {
      if (const MemoryChoice choice = drop_greedily(memory, candidate.tree, 0); better(choice)) best = choice;
      continue;
    }
    const std::uint32_t nodes = (1u << (candidate.tree.nodes.size() - 1)) - 1;
    for (const std::uint32_t saved : choices(memory, nodes)) {
      // A choice that costs no less has to have a smaller peak, which the tree's bound may exclude.
      if (best && candidate.least == best->peak && memory.cost(saved) >= best->cost) break;
      const auto choice = choose(memory, candidate.tree, saved, best ? best->peak : kNoLimit);
      if (choice && better(*choice)) best = choice;
    }
  }
  return *best;
}

std::optional<MemoryChoice> cheapest_within(const Network& network, const Objective& trees,
                                            const Objective& ways, double element_bytes, double limit) {
  const Openings openings(network);
  const bool exact = network.size() <= kExactLeaves;
  auto trees_to_try = candidates(network, openings, trees, ways, element_bytes);
  std::stable_sort(trees_to_try.begin(), trees_to_try.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  std::optional<MemoryChoice> best;
  for (const Candidate& candidate : trees_to_try) {
    if (best && candidate.cost >= best->cost) break;
    if (candidate.least > limit) continue;
    const TreeMemory memory(network, openings, candidate.tree, trees, ways, element_bytes);
    if (!exact) {
      const MemoryChoice choice = drop_greedily(memory, candidate.tree, limit);
      if (choice.peak <= limit && (!best || choice.cost < best->cost)) best = choice;
      continue;
    }
    const std::uint32_t nodes = (1u << (candidate.tree.nodes.size() - 1)) - 1;
    for (const std::uint32_t saved : choices(memory, nodes)) {
      if (best && memory.cost(saved) >= best->cost) break;
      if (const auto choice = choose(memory, candidate.tree, saved, limit)) {
        best = choice;
        break;
      }
    }
  }
  return best;
}

}  // namespace comera::plan
