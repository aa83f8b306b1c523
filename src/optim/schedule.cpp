#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace comera::optim {
namespace {
const std::vector<std::string> kDecayNames = {"constant", "linear", "cosine"};
}

double factor(const Schedule& schedule, std::int64_t step, std::int64_t total) {
  check(step >= 0 && total >= 1 && schedule.warm_up >= 0,
        "[schedule] step {} of {} with a warm-up of {} steps: none may be negative, and a run has a step",
        step, total, schedule.warm_up);
  step = std::min(step, total - 1);
  if (step < schedule.warm_up) return static_cast<double>(step + 1) / schedule.warm_up;
  if (schedule.decay == Decay::constant) return 1;
  const double over = static_cast<double>(step - schedule.warm_up) / (total - schedule.warm_up);
  const double left =
      schedule.decay == Decay::linear ? 1 - over : 0.5 * (1 + std::cos(std::numbers::pi * over));
  return schedule.floor + (1 - schedule.floor) * left;
}

Decay parse_decay(const std::string& name) {
  const auto found = std::find(kDecayNames.begin(), kDecayNames.end(), name);
  if (found == kDecayNames.end()) {
    const std::string nearest = nearest_name(name, kDecayNames);
    fail("[schedule] unknown decay '{}'; {}", name,
         nearest.empty() ? "use constant, linear or cosine" : "did you mean " + nearest + "?");
  }
  return static_cast<Decay>(found - kDecayNames.begin());
}

std::string to_string(Decay decay) { return kDecayNames[static_cast<std::size_t>(decay)]; }

}  // namespace comera::optim
