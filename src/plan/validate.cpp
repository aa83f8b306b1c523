#include "plan_builder.h"

#include <comera/base/error.h>

#include <algorithm>
#include <cmath>

namespace comera::plan {
namespace {

class Checker {
 public:
  Checker(const Plan& plan, const std::string& where) : plan_(plan), where_(where), openings_(plan.network) {}

  void run() {
    tensors();
    alive_.assign(plan_.tensors.size(), 0);
    made_.assign(plan_.tensors.size(), 0);
    std::fill_n(alive_.begin(), plan_.network.size() - 1, 1);
    bool backward = false;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      require(step.backward || !backward, "a forward step follows the backward");
      if (step.backward && !backward) alive_[plan_.network.root()] = 1;
      backward = step.backward;
      one(step);
    }
    results();
    tree();
    // Everything else follows from the steps.
    Plan again = plan_;
    derive(&again);
    require(again == plan_, "its figures are not those of its steps");
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> text, Args&&... args) const {
    if (!condition)
      fail("{}: not a plan that can run: {}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

  void tensors() const {
    const Network& network = plan_.network;
    require(plan_.tensors.size() >= network.leaves.size(), "leaves are missing");
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      const Tensor& tensor = plan_.tensors[i];
      const bool leaf = i < network.leaves.size();
      require(leaf ? tensor.leaves == Leaves{1} << i && tensor.name == network.leaves[i].name
                   : tensor.leaves != 0 && (tensor.leaves & ~network.all()) == 0 &&
                         tensor.leaves != network.all(),
              "tensor {} is the product of leaves that are not there", i);
      require(tensor.indices == openings_.open(tensor.leaves), "the dimensions of tensor {} are wrong", i);
      const std::int64_t elements = checked_elements(network, tensor.indices, where_);
      std::int64_t bytes = 0;
      require(!__builtin_mul_overflow(elements, element_bytes(plan_.request.dtype), &bytes) &&
                  bytes == tensor.bytes,
              "the size of tensor {} is wrong", i);
    }
  }

  bool known(int id) const { return id >= 0 && id < static_cast<int>(plan_.tensors.size()); }

  void one(const Step& step) {
    const int root = plan_.network.root();
    require(known(step.left) && known(step.right) && known(step.result) && step.result > root,
            "a step names a tensor that is not there");
    require(alive_[step.left] && alive_[step.right], "a step reads {} or {} before it is made",
            plan_.tensors[step.left].name, plan_.tensors[step.right].name);
    const Tensor &left = plan_.tensors[step.left], &right = plan_.tensors[step.right],
                 &result = plan_.tensors[step.result];
    require((left.leaves & right.leaves) == 0 && (left.leaves | right.leaves) == result.leaves,
            "{} is not the product of what it is made from", result.name);
    require(step.recomputed ? step.backward && made_[step.result] == 1 && !(result.leaves >> root & 1)
                            : made_[step.result] == 0,
            "{} is made twice", result.name);
    made_[step.result] += 1;
    alive_[step.result] = 1;

    const Indices shared = left.indices & right.indices & result.indices;
    Way way;
    require((step.batch & shared) == shared && (step.batch & ~result.indices) == 0 &&
                way_for_batch(openings_, left.indices, right.indices, result.indices, step.batch, &way) &&
                !way.swapped,
            "the batch of {} cannot run", result.name);
    require(way.m == step.m && way.k == step.k && way.n == step.n && way.copy_left == step.copy_left &&
                way.copy_right == step.copy_right && way.copy_result == step.copy_result,
            "the product for {} has other dimensions", result.name);
    Step measured = step;
    measure_step(plan_, &measured);
    require(measured == step, "the figures for {} are wrong", result.name);
    require(std::isfinite(step.seconds) && step.seconds >= 0, "the time for {} is {}", result.name,
            step.seconds);
    for (const int id : step.frees) {
      require(known(id) && alive_[id], "a step frees what is not there");
      alive_[id] = 0;
    }
  }

  void results() const {
    const Network& network = plan_.network;
    require(plan_.results.size() == network.leaves.size(), "results are missing");
    for (int leaf = 0; leaf < network.size(); ++leaf) {
      const int id = plan_.results[leaf];
      if (leaf != network.root() && !(network.wanted >> leaf & 1)) {
        require(id == -1, "a gradient nobody asked for");
        continue;
      }
      require(known(id) && made_[id] && alive_[id] &&
                  plan_.tensors[id].leaves == (network.all() & ~(Leaves{1} << leaf)),
              "the result for {} is missing", network.leaves[leaf].name);
    }
  }

  void tree() const {
    if (!plan_.tree) return;
    require(plan_.tree->leaves == plan_.network.size(), "its tree is of another network");
    comera::plan::validate(*plan_.tree);
    std::vector<Leaves> sets = plan_.tree->sets(), made;
    sets.erase(sets.begin(), sets.begin() + plan_.tree->leaves);
    for (const Step& step : plan_.steps)
      if (!step.backward) made.push_back(plan_.tensors[step.result].leaves);
    std::sort(sets.begin(), sets.end());
    std::sort(made.begin(), made.end());
    require(sets == made, "its steps are not those of its tree");
  }

  const Plan& plan_;
  const std::string& where_;
  Openings openings_;
  std::vector<char> alive_, made_;
};

}  // namespace

void validate(const Plan& plan, const std::string& where) {
  const bool dense = plan.network.size() == 3;
  check(plan.network == network_of(plan.request, dense), "{}: the network is not that of the request", where);
  check(!plan.peak_is_least || (plan.request.goal == Goal::memory && plan.network.size() <= kExactLeaves),
        "{}: this plan's peak cannot be the least", where);
  check(plan.request.memory_limit >= 0, "{}: a memory limit of {} bytes", where, plan.request.memory_limit);
  Checker(plan, where).run();
}

}  // namespace comera::plan
