// Learning-rate schedules: plain functions of the step.
#pragma once

#include <cstdint>
#include <string>

namespace comera::optim {

enum class Decay { constant, linear, cosine };

struct Schedule {
  std::int64_t warm_up = 0;  ///< steps over which the factor rises linearly from 1 / warm_up to 1
  Decay decay = Decay::linear;
  double floor = 0;  ///< factor at the end of the run

  bool operator==(const Schedule&) const = default;
};

/// The factor for step `step` (0-based) of `total`, in (0, 1]: the first step never gets 0, and a linear
/// decay to 0 would reach it only at step == total. Steps past the end get the last value. total >= 1.
double factor(const Schedule& schedule, std::int64_t step, std::int64_t total);

/// "constant", "linear", "cosine"; Error with the nearest name otherwise.
Decay parse_decay(const std::string& name);
std::string to_string(Decay decay);

}  // namespace comera::optim
