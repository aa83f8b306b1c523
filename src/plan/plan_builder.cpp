#include "plan_builder.h"

#include <comera/base/error.h>

#include <algorithm>

namespace comera::plan {
namespace {

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t total = 0;
  check(!__builtin_add_overflow(a, b, &total), "[plan] the figures of this layer pass 2^63");
  return total;
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t total = 0;
  check(!__builtin_mul_overflow(a, b, &total), "[plan] the figures of this layer pass 2^63");
  return total;
}

std::string list_of(const Network& network, Leaves set) {
  std::string text;
  for (int i = 0; i < network.size(); ++i)
    if (set >> i & 1) text += fmt::format("{}{}", text.empty() ? "" : " ", network.leaves[i].name);
  return fmt::format("[{}]", text);
}

// Marks, from the last step to the first, the last use of each tensor within one half of the plan.
void mark_frees(Plan* plan, bool backward, const std::vector<char>& keeps) {
  std::vector<char> used(plan->tensors.size());
  for (auto step = plan->steps.rbegin(); step != plan->steps.rend(); ++step) {
    if (step->backward != backward) continue;
    step->frees.clear();
    for (const int id : {step->left, step->right, step->result}) {
      if (!used[id] && !keeps[id]) step->frees.push_back(id);
      used[id] = 1;
    }
    std::sort(step->frees.begin(), step->frees.end());
  }
}

}  // namespace

Network network_of(const Request& request, bool dense) {
  Network network = layer_network(request.layers, request.tokens, request.results);
  if (!dense) return network;
  const auto count = static_cast<std::int64_t>(request.layers.size());
  const format::Shape& shape = request.layers.front();
  return dense_network(shape.rows, product(shape.cols, count), request.tokens, request.results);
}

PlanBuilder::PlanBuilder(const Request& request, Network network, const Objective& ways,
                         const Profile& profile)
    : openings_(network), ways_(ways), time_(profile, request.dtype) {
  plan_.request = request;
  plan_.network = std::move(network);
  for (int i = 0; i < plan_.network.size(); ++i) tensor(Leaves{1} << i, plan_.network.leaves[i].name);
  plan_.results.assign(plan_.network.size(), -1);
}

int PlanBuilder::tensor(Leaves set, std::string name) {
  const Indices indices = openings_.open(set);
  const std::int64_t elements = checked_elements(plan_.network, indices, name);
  plan_.tensors.push_back(
      {std::move(name), set, indices, product(elements, element_bytes(plan_.request.dtype))});
  return static_cast<int>(plan_.tensors.size()) - 1;
}

void PlanBuilder::step(int left, int right, int result, bool backward, bool recomputed) {
  const Way way = best_way(openings_, plan_.tensors[left].indices, plan_.tensors[right].indices,
                           plan_.tensors[result].indices, ways_);
  if (way.swapped) std::swap(left, right);
  Step step;
  step.backward = backward;
  step.recomputed = recomputed;
  step.left = left, step.right = right, step.result = result;
  step.batch = way.batch, step.m = way.m, step.k = way.k, step.n = way.n;
  step.copy_left = way.copy_left, step.copy_right = way.copy_right, step.copy_result = way.copy_result;
  measure_step(plan_, &step);
  step.seconds = time_.cost(way.work);
  plan_.steps.push_back(std::move(step));
}

void PlanBuilder::add_tree(const MemoryChoice& choice) {
  const Tree& tree = choice.tree;
  const Network& network = plan_.network;
  const Openings openings(network);
  const TreeMemory memory(network, openings, tree, ways_, ways_, 1);
  const auto sets = tree.sets();
  const int last = 2 * tree.leaves - 3;
  std::vector<int> ids(4 * tree.leaves - 4, -1);
  for (int i = 0; i < tree.leaves; ++i) ids[i] = i;
  ids[memory.incoming(last)] = network.root();
  const auto id_of = [&](int thing) {
    if (ids[thing] >= 0) return ids[thing];
    const bool forward = thing < memory.incoming(0);
    const int node = forward ? thing : thing - memory.incoming(0);
    const Leaves set = forward ? sets[node] : network.all() & ~sets[node];
    const char* gradient = forward ? "" : "d";
    const std::string name = node == last ? "Y"
                                          : fmt::format("{}{}", gradient,
                                                        tree.is_leaf(node) ? network.leaves[node].name
                                                                           : list_of(network, sets[node]));
    return ids[thing] = tensor(set, name);
  };
  const auto run = [&](const Job& job, const Order& order, bool backward) {
    for (const int i : order.operations) {
      const Operation& one = job.operations[i];
      const int left = id_of(one.left), right = id_of(one.right), result = id_of(one.result);
      step(left, right, result, backward, backward && one.result < memory.incoming(0));
    }
  };
  run(memory.forward(choice.saved), choice.forward, false);
  run(memory.backward(choice.saved), choice.backward, true);
  result(network.root(), ids[last]);
  for (int i = 0; i < network.root(); ++i)
    if (network.wanted >> i & 1) result(i, ids[memory.incoming(i)]);
}

Plan PlanBuilder::finish() {
  derive(&plan_);
  return std::move(plan_);
}

void measure_step(const Plan& plan, Step* step) {
  const Network& network = plan.network;
  step->product = {checked_elements(network, step->batch, "a product's batch"),
                   checked_elements(network, step->m, "a product's rows"),
                   checked_elements(network, step->k, "a product's sum"),
                   checked_elements(network, step->n, "a product's columns")};
  step->multiply_adds =
      product(product(step->product.batch, step->product.m), product(step->product.k, step->product.n));
  step->bytes = step->workspace = 0;
  const int ids[] = {step->left, step->right, step->result};
  const bool copies[] = {step->copy_left, step->copy_right, step->copy_result};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t bytes = plan.tensors[ids[i]].bytes;
    step->bytes = sum(step->bytes, product(bytes, copies[i] ? 3 : 1));
    if (copies[i]) step->workspace = sum(step->workspace, bytes);
  }
}

void derive(Plan* plan) {
  const std::size_t count = plan->tensors.size();
  const int leaves = plan->network.size();
  std::vector<char> made_forward(count), made_backward(count), saved(count), keeps(count);
  for (const Step& step : plan->steps) {
    if (step.backward)
      for (const int id : {step.left, step.right})
        if (made_forward[id] && !made_backward[id]) saved[id] = 1;
    (step.backward ? made_backward : made_forward)[step.result] = 1;
  }
  plan->saved.clear();
  for (std::size_t id = 0; id < count; ++id)
    if (saved[id]) plan->saved.push_back(static_cast<int>(id));

  std::fill_n(keeps.begin(), leaves, 1);
  for (const int id : plan->results)
    if (id >= 0) keeps[id] = 1;
  mark_frees(plan, true, keeps);
  for (const int id : plan->saved) keeps[id] = 1;
  mark_frees(plan, false, keeps);

  plan->forward = plan->backward = plan->bytes_moved = plan->saved_bytes = 0;
  plan->forward_peak_bytes = plan->backward_peak_bytes = 0;
  plan->predicted_seconds = 0;
  for (const int id : plan->saved) plan->saved_bytes = sum(plan->saved_bytes, plan->tensors[id].bytes);
  plan->backward_peak_bytes = 0;
  std::int64_t live = 0;
  bool backward = false;
  for (const Step& step : plan->steps) {
    if (step.backward && !backward) {
      backward = true;
      live = plan->saved_bytes;  // Y is the caller's now
      plan->backward_peak_bytes = live;
    }
    live = sum(live, plan->tensors[step.result].bytes);
    auto& peak = backward ? plan->backward_peak_bytes : plan->forward_peak_bytes;
    peak = std::max(peak, sum(live, step.workspace));
    for (const int id : step.frees) live -= plan->tensors[id].bytes;
    auto& adds = backward ? plan->backward : plan->forward;
    adds = sum(adds, step.multiply_adds);
    plan->bytes_moved = sum(plan->bytes_moved, step.bytes);
    plan->predicted_seconds += step.seconds;
  }
  plan->total_multiply_adds = sum(plan->forward, plan->backward);
  plan->peak_bytes = std::max(plan->forward_peak_bytes, plan->backward_peak_bytes);
}

}  // namespace comera::plan
