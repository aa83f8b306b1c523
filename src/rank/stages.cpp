#include "stages.h"

#include <algorithm>
#include <cmath>

namespace comera::rank {

double price_ramp(const Options& options, double progress) {
  if (progress >= options.price_full) return 1;
  if (progress <= options.price_from) return 0;
  return (progress - options.price_from) / (options.price_full - options.price_from);
}

LateStage LateStage::begin(double loss_target, double loss, double size_target, double size, bool loss_only,
                           std::int64_t step) {
  LateStage late;
  late.loss_target = loss_target;
  late.size_target = size_target;
  late.loss_weight = 1 / std::max({0.02 * std::abs(loss_target), std::abs(loss - loss_target), 1e-12});
  late.size_weight = 1 / std::max(size - size_target, 1e-3);
  late.loss_only = loss_only;
  late.phase = loss_only && loss >= loss_target ? Phase::loss : Phase::size;
  late.since = step;
  return late;
}

bool LateStage::decide(double loss, double size, std::int64_t step) {
  const double loss_distance = loss_weight * (loss - loss_target);
  const double size_distance = loss_only ? 0 : size_weight * (size - size_target);
  since = step;
  const Phase before = phase;
  if (phase == Phase::size && loss_distance >= size_distance + kHysteresis) phase = Phase::loss;
  if (phase == Phase::loss && loss_distance < size_distance - kHysteresis) phase = Phase::size;
  return phase != before;
}

double LateStage::price() const {
  return phase == Phase::loss ? kRho / (loss_weight + kRho) : (size_weight + kRho) / kRho;
}

std::int64_t budget_at(double over, std::int64_t from, std::int64_t to) {
  if (over >= 1 || from <= to) return to;
  const double left = std::pow(1 - std::max(over, 0.0), 3);
  return to + static_cast<std::int64_t>(left * static_cast<double>(from - to));
}

Json LateStage::save() const {
  return {{"loss_target", loss_target},
          {"size_target", size_target},
          {"loss_weight", loss_weight},
          {"size_weight", size_weight},
          {"loss_only", loss_only},
          {"in_size_phase", phase == Phase::size},
          {"since", since}};
}

void LateStage::load(const Json& saved) {
  loss_target = saved.at("loss_target");
  size_target = saved.at("size_target");
  loss_weight = saved.at("loss_weight");
  size_weight = saved.at("size_weight");
  loss_only = saved.at("loss_only");
  phase = saved.at("in_size_phase").get<bool>() ? Phase::size : Phase::loss;
  since = saved.at("since");
}

}  // namespace comera::rank
