// Cutting ranks for real: what is zero, what a budget asks for, what a loss target allows.
#include "controller_state.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/weights/rounding.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace comera::rank {
namespace {

constexpr double kPublishedThreshold = 1e-2;

std::vector<double> on_host(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().to(torch::kCPU, torch::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

std::vector<std::int64_t> inner_ranks(const format::Shape& shape) {
  return {shape.ranks.begin() + 1, shape.ranks.end() - 1};
}

std::vector<std::int64_t> modes_of(const format::Shape& shape) {
  std::vector<std::int64_t> modes;
  for (std::int64_t k = 0; k < shape.order(); ++k) modes.push_back(shape.mode(k));
  return modes;
}

void Controller::State::read_zero_streaks() {
  streaks.clear();
  const torch::Tensor counts = zero_streak.to(torch::kCPU, torch::kLong).contiguous();
  const std::int64_t* next = counts.const_data_ptr<std::int64_t>();
  for (const torch::Tensor& scale : table->parameters()) {
    streaks.emplace_back(next, next + scale.numel());
    next += scale.numel();
  }
}

void Controller::State::count_live() {
  live.clear();
  for (const torch::Tensor& scale : table->parameters()) {
    const std::vector<double> values = on_host(scale);
    live.push_back(values.size() - std::count(values.begin(), values.end(), 0.0));
  }
}

std::int64_t Controller::State::live_size() const {
  return table->live_parameters(table->values()).item<std::int64_t>();
}

void Controller::State::change_ranks(std::size_t index, const std::vector<weights::BondChange>& bonds) {
  weights::TensorTrain& weight = weights[index].weight;
  std::size_t bond = 0;
  for (std::size_t i = 0; i < index; ++i) bond += weights[i].weight.shape().bonds();
  for (const weights::BondChange& change : bonds) {
    std::vector<std::int64_t> continued;
    for (const std::int64_t from : change.change.from)
      continued.push_back(from < 0 ? 0 : streaks[bond][from]);
    streaks[bond++] = std::move(continued);
  }
  weights::apply(weight, bonds);
  changes.push_back({weight, bonds});
}

void Controller::State::log_ranks(EventKind kind, std::size_t index, std::vector<std::int64_t> old_ranks,
                                  std::string text) {
  const auto& [name, weight] = weights[index];
  events.push_back(
      {step, kind, name, std::move(old_ranks), inner_ranks(weight.shape()), size(), std::move(text)});
}

void Controller::State::follow(weights::OptimiserState& optimiser) {
  if (!changes.empty()) {
    optimiser.apply(changes);
    changes.clear();
    table.emplace(weights);
    std::vector<std::int64_t> all;
    for (const auto& streak : streaks) all.insert(all.end(), streak.begin(), streak.end());
    zero_streak = torch::tensor(all, torch::kLong).to(zero_streak.device(), zero_streak.scalar_type());
  }
  count_live();
}

void Controller::State::cut_zeros() {
  std::size_t bond = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto& [name, weight] = weights[i];
    const format::Shape& shape = weight.shape();
    const std::vector<std::int64_t> old_ranks = inner_ranks(shape);
    std::vector<std::vector<std::int64_t>> kept;
    for (const torch::Tensor& scale : weight.scales()) {
      const std::vector<std::int64_t>& streak = streaks[bond++];
      const std::vector<double> values = on_host(scale);
      const auto dead = [&](std::int64_t j) {
        return options.rule == Rule::published ? std::abs(values[j]) <= kPublishedThreshold
                                               : streak[j] >= options.zero_steps;
      };
      std::vector<std::int64_t>& indices = kept.emplace_back();
      for (std::int64_t j = 0; j < static_cast<std::int64_t>(values.size()); ++j)
        if (!dead(j)) indices.push_back(j);
      if (indices.empty() && !values.empty())
        indices.push_back(std::max_element(values.begin(), values.end(),
                                           [](double a, double b) { return std::abs(a) < std::abs(b); }) -
                          values.begin());
    }
    if (shape.dead() || shape.bonds() == 0) continue;
    std::vector<std::int64_t> counts;
    for (const auto& indices : kept) counts.push_back(indices.size());
    if (counts != old_ranks) change_ranks(i, weights::slice(weight, name, kept));
    const std::vector<std::int64_t> usable = usable_ranks(modes_of(shape), counts);
    if (usable != counts) change_ranks(i, weights::round_to_ranks(weight, name, usable));
    if (usable != old_ranks)
      log_ranks(EventKind::cut, i, old_ranks,
                usable == counts ? "" : "some were of no use to their neighbours");
  }
}

// Mean live |D| = 1 in each bond, the function unchanged: prices and learning rates keep their meaning.
void Controller::State::rescale_bonds(weights::OptimiserState& optimiser) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, weight] : weights) {
    const auto cores = weight.cores(), scales = weight.scales();
    std::vector<double> core_factors(cores.size(), 1.0);
    for (std::size_t k = 0; k < scales.size(); ++k) {
      double sum = 0, count = 0;
      for (const double value : on_host(scales[k])) sum += std::abs(value), count += value != 0;
      if (count == 0 || sum == 0 || !std::isfinite(sum)) continue;
      const double mean = sum / count;
      scales[k].div_(mean);
      optimiser.rescale(scales[k], 1 / mean);
      core_factors[k] *= std::sqrt(mean);
      core_factors[k + 1] *= std::sqrt(mean);
    }
    for (std::size_t k = 0; k < cores.size(); ++k) {
      if (core_factors[k] == 1.0) continue;
      cores[k].mul_(core_factors[k]);
      optimiser.rescale(cores[k], core_factors[k]);
    }
    weight.values_changed();
  }
}

void Controller::State::cut_at_schedule(weights::OptimiserState& optimiser) {
  read_zero_streaks();
  const bool priced = price() > 0;
  if (priced) {
    cut_zeros();
    consider_deaths();
  }
  if (stage == Stage::late && target_size > 0) {
    const double over = (progress - early_end) / (budget_end - early_end);
    cut_to(budget_at(over, late_size, target_size));
  } else if (stage == Stage::late) {
    cut_while_loss_allows();
  }
  follow(optimiser);
  if (priced && options.rule == Rule::count_prices) rescale_bonds(optimiser);
}

void Controller::State::force_to(std::int64_t budget, weights::OptimiserState& optimiser) {
  read_zero_streaks();
  cut_to(budget);
  follow(optimiser);
}

void Controller::State::measure_sensitivities() {
  const double loss = probe.loss ? probe.loss() : 0;
  std::vector<double> measured, squared_norms;
  for (const auto& named : weights) {
    const SquaredErrors errors = squared_errors(named.weight);
    squared_norms.push_back(errors.empty() || named.weight.shape().dead() ? 0 : errors[0][0]);
    measured.push_back(
        probe.loss && squared_norms.back() > 0 ? measure_sensitivity(named, errors, probe, loss) : 0);
  }
  sensitivity = settle_sensitivities(measured, squared_norms);
}

/// Ranks for every weight (its present ones when it is dead) within `budget` parameters.
std::vector<std::vector<std::int64_t>> Controller::State::ranks_within(std::int64_t budget) const {
  std::vector<Candidate> candidates;
  std::vector<std::size_t> alive;
  std::vector<std::vector<std::int64_t>> ranks;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& weight = weights[i].weight;
    ranks.push_back(inner_ranks(weight.shape()));
    if (weight.shape().dead()) continue;
    Candidate candidate{modes_of(weight.shape()), ranks.back(), squared_errors(weight)};
    for (auto& of_bond : candidate.damage)
      for (double& damage : of_bond) damage *= sensitivity[i];
    candidates.push_back(std::move(candidate));
    alive.push_back(i);
  }
  const auto chosen = allocate(candidates, budget);
  for (std::size_t i = 0; i < alive.size(); ++i) ranks[alive[i]] = chosen[i];
  return ranks;
}

void Controller::State::round_all(const std::vector<std::vector<std::int64_t>>& ranks,
                                  const std::string& why) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::vector<std::int64_t> old_ranks = inner_ranks(weights[i].weight.shape());
    if (ranks[i] == old_ranks) continue;
    change_ranks(i, weights::round_to_ranks(weights[i].weight, weights[i].name, ranks[i]));
    log_ranks(EventKind::forced_cut, i, old_ranks, why);
    forced = true;
  }
}

void Controller::State::cut_to(std::int64_t budget) {
  if (size() <= budget) return;
  if (sensitivity.empty()) measure_sensitivities();
  force_deaths(budget);
  if (size() > budget) round_all(ranks_within(budget), fmt::format("budget {}", budget));
  check(size() <= budget, "[rank] internal error: {} parameters after a cut to {}", size(), budget);
}

void Controller::State::cut_while_loss_allows() {
  if (sensitivity.empty() || !(probe.loss() <= *options.target_loss)) return;
  for (const double part : {0.9, 0.97}) {
    const auto budget = static_cast<std::int64_t>(part * static_cast<double>(size()));
    if (budget < rank_one_size()) continue;
    const auto ranks = ranks_within(budget);
    double loss = 0;
    {
      std::vector<std::unique_ptr<TemporaryValues>> values;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (ranks[i] == inner_ranks(weights[i].weight.shape())) continue;
        values.push_back(std::make_unique<TemporaryValues>(weights[i].weight));
        values.back()->truncate(ranks[i]);
      }
      loss = probe.loss();
    }
    if (!(loss <= *options.target_loss)) continue;
    round_all(ranks, fmt::format("held-out loss {:.4g} is within {:.4g}", loss, *options.target_loss));
    return;
  }
}

}  // namespace comera::rank
