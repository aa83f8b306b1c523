#include "controller_state.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace comera::rank {
namespace {

constexpr double kFixedWithoutTarget = 0.8;
constexpr double kBudgetPart = 0.7;   // of the late stage, over which the budget falls
constexpr double kWarmUpPart = 0.05;  // of the run, for the new warm-up once ranks are fixed

// In fixed order, so that the number of threads does not change a bit of the run.
double squared_norm(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().to(torch::kCPU, torch::kDouble).contiguous();
  const double* entries = values.const_data_ptr<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) sum += entries[i] * entries[i];
  return sum;
}

// sum_k c_k r_k / sum_k (||G_k||^2 + ||G_{k+1}||^2): the l2 term pulls at the cores as hard as prices pull at
// scales.
double l2_unit(const weights::TensorTrain& weight, std::int64_t start_size) {
  const format::Shape& shape = weight.shape();
  const auto cores = weight.cores();
  std::vector<double> norms;
  for (const torch::Tensor& core : cores) norms.push_back(squared_norm(core));
  double prices = 0, squares = 0;
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    prices += static_cast<double>(shape.rank_cost(k) * shape.rank(k)) / static_cast<double>(start_size);
    squares += norms[k] + norms[k + 1];
  }
  return squares > 0 ? prices / squares : 0;
}

std::vector<std::vector<std::size_t>> death_groups(const std::vector<weights::NamedTensorTrain>& weights,
                                                   const weights::Dependencies& dependencies) {
  std::map<std::string, std::size_t> index;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < weights.size(); ++i)
    index[weights[i].name] = i, names.push_back(weights[i].name);
  const auto find = [&](const std::string& name) {
    const auto found = index.find(name);
    if (found != index.end()) return found->second;
    const std::string nearest = nearest_name(name, names);
    fail("[rank] a dependency names an unknown weight {}{}", name,
         nearest.empty() ? "" : "; did you mean " + nearest + "?");
  };
  std::vector<bool> mortal(weights.size(), false);
  for (const std::string& name : dependencies.may_die) {
    const std::size_t i = find(name);
    mortal[i] = weights[i].weight.shape().bonds() > 0;  // a single core has no rank to lose
  }
  std::vector<std::vector<std::size_t>> useless(weights.size());
  for (const auto& [name, others] : dependencies.useless_without)
    for (const std::string& other : others) useless[find(name)].push_back(find(other));
  std::vector<std::vector<std::size_t>> groups(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!mortal[i]) continue;
    groups[i] = {i};
    for (std::size_t next = 0; next < groups[i].size(); ++next)
      for (const std::size_t other : useless[groups[i][next]])
        if (mortal[other] && std::find(groups[i].begin(), groups[i].end(), other) == groups[i].end())
          groups[i].push_back(other);
  }
  return groups;
}

}  // namespace

Controller::Controller(std::vector<weights::NamedTensorTrain> weights, Options options, Probe probe,
                       weights::Dependencies dependencies)
    : state_(std::make_unique<State>()) {
  validate(options);
  State& state = *state_;
  check(!weights.empty(), "[rank] the model has no tensor-train weights to adapt");
  std::map<std::string, int> seen;
  for (const auto& [name, weight] : weights)
    check(++seen[name] == 1, "[rank] weight {} is listed twice", name);
  check(!options.target_loss || probe.loss, "[rank] target_loss needs a probe of the held-out loss");
  check(!options.layers_may_die || probe.loss, "[rank] layers_may_die needs a probe of the held-out loss");
  const bool has_target = options.target_parameters || options.target_bytes || options.target_loss;
  state.early_end = has_target ? options.early_end : kFixedWithoutTarget;
  state.budget_end = has_target ? state.early_end + kBudgetPart * (1 - state.early_end) : state.early_end;
  if (options.layers_may_die)
    state.dies_with = death_groups(weights, dependencies);
  else
    state.dies_with.resize(weights.size());
  state.weights = std::move(weights);
  state.options = options;
  state.probe = std::move(probe);
  state.gamma = options.gamma;
  state.start_size = state.size();

  if (options.target_parameters || options.target_bytes) {
    const std::int64_t bytes = state.weights[0].weight.cores()[0].element_size();
    state.target_size =
        options.target_parameters ? *options.target_parameters : *options.target_bytes / bytes;
    const std::int64_t smallest = state.smallest_size();
    check(
        state.target_size >= smallest,
        "[rank] a target of {} parameters is below the smallest model, {} parameters ({} bytes); raise it or "
        "shorten the digits",
        state.target_size, smallest, smallest * bytes);
  }
  for (const auto& [name, weight] : state.weights)
    state.l2_units.push_back(l2_unit(weight, state.start_size));
  state.table.emplace(state.weights);
  const torch::Tensor values = state.table->values();
  state.zero_streak = torch::zeros(values.sizes(), values.options().dtype(torch::kInt));
  state.count_live();
}

Controller::~Controller() = default;
Controller::Controller(Controller&&) noexcept = default;

std::int64_t Controller::State::size() const {
  std::int64_t total = 0;
  for (const auto& [name, weight] : weights) total += weight.shape().parameters();
  return total;
}

std::int64_t Controller::State::smallest_size() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!weights[i].weight.shape().dead() && dies_with[i].empty())
      total += weights[i].weight.shape().minimum_parameters();
  return total;
}

void Controller::State::log(EventKind kind, std::string text) {
  events.push_back({step, kind, {}, {}, {}, size(), std::move(text)});
}

void Controller::State::begin_late() {
  stage = Stage::late;
  late_size = size();
  if (probe.loss || target_size > 0) measure_sensitivities();
  const double start = static_cast<double>(start_size);
  if (has_phases())
    late = LateStage::begin(*options.target_loss, probe.loss(), static_cast<double>(target_size) / start,
                            static_cast<double>(live_size()) / start, target_size == 0, step);
  log(EventKind::stage,
      fmt::format("late stage towards {}{}{}",
                  target_size > 0 ? fmt::format("{} parameters", target_size) : "",
                  target_size > 0 && options.target_loss ? " and " : "",
                  options.target_loss ? fmt::format("loss {:.4g}", *options.target_loss) : ""));
}

void Controller::State::fix(const std::string& why) {
  stage = Stage::fixed;
  if (forced) fixed_at = progress;
  log(EventKind::stage, "ranks are fixed, " + why);
}

std::vector<Event> Controller::after_step(const StepInfo& info, weights::OptimiserState& optimiser) {
  State& state = *state_;
  check(info.step > state.step, "[rank] step {} follows step {}; steps must rise", info.step, state.step);
  check(info.progress >= state.progress && info.progress <= 1,
        "[rank] progress {} at step {}: it must rise from {} to 1", info.progress, info.step, state.progress);
  state.events.clear();
  state.step = info.step;
  state.shrink(optimiser);
  state.progress = info.progress;
  if (!state.gamma && std::isfinite(info.loss)) state.gamma = 0.1 * std::abs(info.loss);

  const bool targets = state.target_size > 0 || state.options.target_loss;
  if (state.stage == Stage::early && state.progress >= state.early_end) {
    state.cut_at_schedule(optimiser);
    targets ? state.begin_late() : state.fix("end of the early stage");
  } else if (state.stage != Stage::fixed && state.step % state.options.cut_every == 0) {
    state.cut_at_schedule(optimiser);
  }
  if (state.stage == Stage::late && state.progress >= state.budget_end) {
    if (state.target_size > 0) state.force_to(state.target_size, optimiser);
    state.fix("end of the budget");
  }
  if (state.stage == Stage::late && state.has_phases() && state.step - state.late.since >= LateStage::kHold) {
    const double loss = state.probe.loss();
    const double size = static_cast<double>(state.live_size()) / static_cast<double>(state.start_size);
    if (state.late.decide(loss, size, state.step))
      state.log(EventKind::phase,
                fmt::format(
                    "{} is further from its target (loss {:.4g}, target {:.4g}; size {:.4g}, target {:.4g})",
                    state.late.phase == Phase::loss ? "loss" : "size", loss, state.late.loss_target, size,
                    state.late.size_target));
  }
  if (state.progress >= 1) {
    std::vector<Event> events = std::move(state.events);
    for (Event& event : finish(info.step, optimiser)) events.push_back(std::move(event));
    return events;
  }
  return std::move(state.events);
}

std::vector<Event> Controller::finish(std::int64_t step, weights::OptimiserState& optimiser) {
  State& state = *state_;
  state.events.clear();
  if (state.finished) return {};
  state.step = std::max(step, state.step);
  if (state.target_size > 0) {
    if (state.size() > state.target_size) state.force_to(state.target_size, optimiser);
    state.log(EventKind::target,
              fmt::format("size target of {} parameters met with {}", state.target_size, state.size()));
  }
  if (state.options.target_loss) {
    const double loss = state.probe.loss();
    state.log(EventKind::target, fmt::format("loss target {:.4g} {} with {:.4g}", *state.options.target_loss,
                                             loss <= *state.options.target_loss ? "met" : "not met", loss));
  }
  state.stage = Stage::fixed;
  state.finished = true;
  return std::move(state.events);
}

Stage Controller::stage() const { return state_->stage; }

double Controller::learning_rate_factor() const {
  const State& state = *state_;
  if (state.stage != Stage::fixed || state.fixed_at >= 1) return 1;
  return std::min(1.0, 0.1 + 0.9 * (state.progress - state.fixed_at) / kWarmUpPart);
}

std::int64_t Controller::size() const { return state_->size(); }
std::int64_t Controller::start_size() const { return state_->start_size; }
std::int64_t Controller::target_size() const { return state_->target_size; }

std::int64_t Controller::median_rank() const {
  std::vector<std::int64_t> ranks;
  for (const auto& [name, weight] : state_->weights)
    for (std::int64_t k = 0; k < weight.shape().bonds(); ++k) ranks.push_back(weight.shape().rank(k));
  if (ranks.empty()) return 1;
  std::nth_element(ranks.begin(), ranks.begin() + ranks.size() / 2, ranks.end());
  return ranks[ranks.size() / 2];
}

}  // namespace comera::rank
