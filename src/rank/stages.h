// When to ask for less size and when for less loss: stages, prices and budgets as plain numbers. No torch.
#pragma once

#include <comera/base/json.h>
#include <comera/rank/options.h>

#include <cstdint>

namespace comera::rank {

/// Price of size in the early stage as a part of gamma: 0 before price_from, 1 from price_full.
double price_ramp(const Options& options, double progress);

enum class Phase { loss, size };

/// Achievement scalarisation: whichever target is further away, in its own units, is worked on. Both
/// subproblems are divided by their weight on the loss, so that only the price of size changes at a switch
/// and the second moments of Adam stay valid.
struct LateStage {
  static constexpr double kRho = 0.1;          ///< part of the other goal in each phase
  static constexpr std::int64_t kHold = 20;    ///< steps a phase lasts at least
  static constexpr double kHysteresis = 0.05;  ///< difference of the distances that makes a switch

  double loss_target = 0, size_target = 0;  ///< L0; s0 = S0 / S_start
  double loss_weight = 0, size_weight = 0;  ///< w1, w2
  bool loss_only = false;  ///< no size target: size is asked for while the loss is within its target
  Phase phase = Phase::size;
  std::int64_t since = 0;  ///< step of the last decision

  /// From the values at which the late stage begins; size as a part of the size at the start of the run.
  static LateStage begin(double loss_target, double loss, double size_target, double size, bool loss_only,
                         std::int64_t step);
  /// Distances w1 (L - L0) and w2 (s - s0); switches when the other one is clearly larger. True when it
  /// switched.
  bool decide(double loss, double size, std::int64_t step);
  /// Price of the whole size in units of the loss.
  double price() const;

  Json save() const;
  void load(const Json& saved);
};

/// The most parameters allowed at `over`, the part of the budget's time that is over: a cubic fall from
/// `from` to `to`.
std::int64_t budget_at(double over, std::int64_t from, std::int64_t to);

}  // namespace comera::rank
