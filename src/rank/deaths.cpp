// Whole layers that die: decided by the loss without them, never by a price or a threshold.
#include "controller_state.h"

#include <comera/base/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace comera::rank {

std::int64_t Controller::State::rank_one_size() const {
  std::int64_t total = 0;
  for (const auto& [name, weight] : weights)
    if (!weight.shape().dead()) total += weight.shape().minimum_parameters();
  return total;
}

std::int64_t Controller::State::group_size(std::size_t index) const {
  std::int64_t total = 0;
  for (const std::size_t i : dies_with[index]) total += weights[i].weight.shape().parameters();
  return total;
}

double Controller::State::loss_without(std::size_t index) const {
  std::vector<std::unique_ptr<TemporaryValues>> values;
  for (const std::size_t i : dies_with[index]) {
    if (weights[i].weight.shape().dead()) continue;
    values.push_back(std::make_unique<TemporaryValues>(weights[i].weight));
    values.back()->erase();
  }
  return probe.loss();
}

void Controller::State::let_die(std::size_t index, const std::string& why) {
  for (const std::size_t i : dies_with[index]) {
    auto& [name, weight] = weights[i];
    if (weight.shape().dead()) continue;
    const std::vector<std::int64_t> old_ranks = inner_ranks(weight.shape());
    const std::vector<std::vector<std::int64_t>> nothing(weight.shape().bonds());
    change_ranks(i, weights::slice(weight, name, nothing));
    log_ranks(EventKind::death, i, old_ranks,
              i == index ? why : "nothing reads it without " + weights[index].name);
  }
}

// A weight that prices have driven to rank 1 somewhere may go when the loss rises less than its size is
// worth.
void Controller::State::consider_deaths() {
  double loss = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const format::Shape& shape = weights[i].weight.shape();
    if (dies_with[i].empty() || shape.dead()) continue;
    const std::vector<std::int64_t> ranks = inner_ranks(shape);
    if (*std::min_element(ranks.begin(), ranks.end()) > 1) continue;
    if (std::isnan(loss)) loss = probe.loss();
    const double without = loss_without(i);
    const std::int64_t saved = group_size(i);
    const double worth = *gamma * static_cast<double>(saved) / static_cast<double>(start_size);
    if (!(without - loss <= worth)) continue;
    let_die(i, fmt::format("held-out loss {:.4g} -> {:.4g} for {} parameters", loss, without, saved));
    loss = without;
  }
}

// A budget that not even rank 1 everywhere can meet: the layers whose loss is least for what they save go
// first.
void Controller::State::force_deaths(std::int64_t budget) {
  std::int64_t smallest = rank_one_size();
  if (smallest <= budget) return;
  const double loss = probe.loss();
  struct Choice {
    std::size_t index;
    double loss, rise_per_parameter;
  };
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (dies_with[i].empty() || weights[i].weight.shape().dead()) continue;
    const double without = loss_without(i);
    const double rise = (without - loss) / static_cast<double>(group_size(i));
    choices.push_back({i, without, std::isnan(rise) ? std::numeric_limits<double>::infinity() : rise});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.rise_per_parameter < b.rise_per_parameter;
  });
  for (const Choice& choice : choices) {
    if (smallest <= budget) break;
    for (const std::size_t i : dies_with[choice.index])
      if (!weights[i].weight.shape().dead()) smallest -= weights[i].weight.shape().minimum_parameters();
    let_die(choice.index, fmt::format("held-out loss {:.4g} -> {:.4g}, the budget of {} needs it", loss,
                                      choice.loss, budget));
  }
}

}  // namespace comera::rank
