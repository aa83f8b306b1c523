#include <comera/base/error.h>
#include <comera/plan/memory.h>

#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

namespace comera::plan {
namespace {

using Done = std::uint64_t;  // set of operations

// A job with what is asked of it often: which operations use a thing, and which one makes it.
class Simulation {
 public:
  explicit Simulation(const Job& job) : job_(job), uses_(job.bytes.size()), maker_(job.bytes.size(), -1) {
    for (std::size_t i = 0; i < job.operations.size(); ++i) {
      const Operation& operation = job.operations[i];
      uses_[operation.left] |= Done{1} << i;
      uses_[operation.right] |= Done{1} << i;
      maker_[operation.result] = static_cast<int>(i);
    }
  }

  Done all() const {
    const std::size_t count = job_.operations.size();
    return count == 64 ? ~Done{0} : (Done{1} << count) - 1;
  }
  double start() const {
    double live = 0;
    for (std::size_t thing = 0; thing < job_.bytes.size(); ++thing)
      if (job_.given[thing] && (job_.kept[thing] || uses_[thing])) live += job_.bytes[thing];
    return live;
  }
  bool ready(std::size_t i, Done done) const {
    const Operation& operation = job_.operations[i];
    return !(done >> i & 1) && there(operation.left, done) && there(operation.right, done);
  }
  double during(std::size_t i, double live) const {
    return live + job_.bytes[job_.operations[i].result] + job_.operations[i].workspace;
  }
  double after(std::size_t i, Done done, double live) const {
    const Operation& operation = job_.operations[i];
    const Done next = done | Done{1} << i;
    if (job_.kept[operation.result] || uses_[operation.result]) live += job_.bytes[operation.result];
    for (const int thing : {operation.left, operation.right})
      if (!job_.kept[thing] && (uses_[thing] & ~next) == 0) live -= job_.bytes[thing];
    return live;
  }

 private:
  bool there(int thing, Done done) const {
    return job_.given[thing] || (maker_[thing] >= 0 && (done >> maker_[thing] & 1));
  }

  const Job& job_;
  std::vector<Done> uses_;
  std::vector<int> maker_;
};

struct State {
  double peak = 0, live = 0;
  Done done = 0;
  Done before = 0;  // the state it came from

  bool operator<(const State& other) const {
    if (peak != other.peak) return peak > other.peak;
    const int own = std::popcount(done), others = std::popcount(other.done);
    return own != others ? own < others : done > other.done;
  }
};

// Always the operation that needs least, of equals the one that leaves least.
Order greedy(const Job& job, const Simulation& simulation) {
  Order order;
  order.exact = false;
  double live = simulation.start();
  order.peak = live;
  Done done = 0;
  while (done != simulation.all()) {
    int best = -1;
    double best_during = 0, best_after = 0;
    for (std::size_t i = 0; i < job.operations.size(); ++i) {
      if (!simulation.ready(i, done)) continue;
      const double during = simulation.during(i, live), after = simulation.after(i, done, live);
      if (best >= 0 && (during > best_during || (during == best_during && after >= best_after))) continue;
      best = static_cast<int>(i), best_during = during, best_after = after;
    }
    check(best >= 0, "[plan] an operation waits for what nothing makes");
    order.operations.push_back(best);
    order.peak = std::max(order.peak, best_during);
    live = best_after;
    done |= Done{1} << best;
  }
  return order;
}

}  // namespace

// Over sets of executed operations, those reached with the least peak first.
std::optional<Order> least_peak(const Job& job, double limit, std::size_t most_states) {
  check(job.operations.size() <= 64, "[plan] at most 64 operations can be ordered, got {}",
        job.operations.size());
  const Simulation simulation(job);
  std::unordered_map<Done, Done> came_from;
  std::priority_queue<State> open;
  const double start = simulation.start();
  if (start > limit) return std::nullopt;
  open.push({start, start, 0, 0});
  while (!open.empty()) {
    const State state = open.top();
    open.pop();
    if (!came_from.emplace(state.done, state.before).second) continue;
    if (state.done == simulation.all()) {
      Order order;
      order.peak = state.peak;
      for (Done done = state.done; done != 0; done = came_from.at(done))
        order.operations.push_back(std::countr_zero(done ^ came_from.at(done)));
      std::reverse(order.operations.begin(), order.operations.end());
      return order;
    }
    if (came_from.size() > most_states) {
      Order order = greedy(job, simulation);
      if (order.peak > limit) return std::nullopt;
      return order;
    }
    const auto next_of = [&](std::size_t i) {
      return State{std::max(state.peak, simulation.during(i, state.live)),
                   simulation.after(i, state.done, state.live), state.done | Done{1} << i, state.done};
    };
    // What raises neither the peak nor what is live can be done at once: no order is better for waiting.
    std::vector<State> next;
    bool at_once = false;
    for (std::size_t i = 0; i < job.operations.size() && !at_once; ++i) {
      if (!simulation.ready(i, state.done)) continue;
      const State after = next_of(i);
      if (after.peak > limit) continue;
      at_once = after.peak == state.peak && after.live <= state.live;
      if (at_once) next.clear();
      next.push_back(after);
    }
    for (const State& after : next) open.push(after);
  }
  return std::nullopt;
}

}  // namespace comera::plan
