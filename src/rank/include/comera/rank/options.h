// What a user can ask of rank adaptation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace comera::rank {

enum class Rule {
  count_prices,  ///< each rank is priced by the parameters it saves; zeros come from a proximal step
  published,  ///< the CoMERA paper: gradient of sum over cores of s_k ||D_{k-1}||_1 ||D_k||_1, cut at |D| <=
              ///< 0.01
};
/// "count_prices" or "published"; Error with the nearest name otherwise.
Rule parse_rule(const std::string& name);

struct Options {
  Rule rule = Rule::count_prices;
  /// Price of the whole compressible size at full rank, in units of the loss. Default: a tenth of the loss of
  /// the first step, as the drop that can be expected. 0: no prices, ranks fall only to meet a target.
  std::optional<double> gamma;

  /// Targets over the compressible parameters (cores and rank scales of the weights given to the controller).
  /// A run with a size target ends at or under it, always.
  std::optional<std::int64_t> target_parameters;
  std::optional<std::int64_t> target_bytes;
  /// Keep removing ranks in the late stage as long as the loss of the probe after the cut is at most this;
  /// with a size target too the late stage asks for loss or size, whichever is further from its target. Needs
  /// the probe.
  std::optional<double> target_loss;

  /// Stages as fractions of the run.
  double price_from = 0.1;  ///< no price before
  double price_full = 0.2;  ///< full price from here
  double early_end =
      0.6;  ///< the late stage begins; without a target there is none, and ranks are fixed at 0.8

  std::int64_t cut_every = 50;   ///< steps between cuts
  std::int64_t zero_steps = 20;  ///< consecutive steps at zero after which a rank is cut

  /// Weights that the model lists as able to die (weights::Dependencies) may end at rank 0: the layer becomes
  /// its bias. Needs the probe.
  bool layers_may_die = false;
};

/// Throws Error naming the first option that cannot be.
void validate(const Options& options);

/// What the controller may ask of the model between steps.
struct Probe {
  /// Loss of a fixed held-out batch with the present values, without dropout and without gradients. Called
  /// while some weight is truncated for a moment; its value_version changes, its geometry does not.
  std::function<double()> loss;
};

/// Learning rate the rank scales need to be able to reach zero within the early stage: max(1e-3, 4 / steps)
/// with `early_steps` steps in it.
double scale_learning_rate(std::int64_t early_steps);

}  // namespace comera::rank
