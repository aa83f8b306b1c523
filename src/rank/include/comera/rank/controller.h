// Finds ranks during training: prices, stages, cuts, and the promise of a size.
#pragma once

#include <comera/rank/event.h>
#include <comera/rank/options.h>
#include <comera/weights/dependencies.h>
#include <comera/weights/optimiser_state.h>
#include <comera/weights/saved_state.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace comera::rank {

enum class Stage {
  early,  ///< loss + price x size
  late,   ///< a falling budget towards a size target; with a loss target, size weighed against loss
  fixed,  ///< ranks stay as they are
};

/// The step just done.
struct StepInfo {
  std::int64_t step = 0;  ///< 1-based, rising by one
  double progress = 0;    ///< part of the run that is over, in (0, 1]; 1 = this was the last step
  double loss = 0;        ///< training loss last read on the host; may lag a step
};

/// A step of a user's own loop:
///   ranks.penalised(loss).backward();
///   optimiser.step();
///   for (const auto& event : ranks.after_step({.step = i, .progress = double(i) / total, .loss = value},
///   state))
///     print(to_string(event));
class Controller {
 public:
  /// Throws Error when a target is below the smallest model (which is named), a name is given twice, a
  /// pattern of may_die matches nothing, or something needs a probe and there is none.
  Controller(std::vector<weights::NamedTensorTrain> weights, Options options, Probe probe = {},
             weights::Dependencies dependencies = {});
  ~Controller();
  Controller(Controller&&) noexcept;

  /// Adds the gradient of the l2 term (under Rule::published also that of the size term) to the gradients of
  /// cores and scales. Between backward and the optimiser's step, once a step.
  void before_step();
  /// The same through autograd, for loops without before_step: loss + the terms.
  torch::Tensor penalised(const torch::Tensor& loss) const;
  /// After the optimiser's step: shrinks rank scales, and at its schedule rescales bonds and cuts ranks for
  /// real. Between those times nothing is read from the device.
  std::vector<Event> after_step(const StepInfo& step, weights::OptimiserState& optimiser);
  /// Makes a size target true now, for a run that stops before its end. after_step does it at progress 1.
  std::vector<Event> finish(std::int64_t step, weights::OptimiserState& optimiser);

  Stage stage() const;
  /// Factor for all learning rates: 1, except for a short new warm-up once ranks are fixed after forced cuts.
  double learning_rate_factor() const;
  /// Compressible parameters as stored now, and at the start.
  std::int64_t size() const;
  std::int64_t start_size() const;
  /// The size target in parameters, from target_parameters or target_bytes; 0 without one.
  std::int64_t target_size() const;
  /// Middle of all inner ranks now, for progress lines.
  std::int64_t median_rank() const;

  /// Everything a resumed run needs besides the weights themselves. load() expects weights of the saved
  /// ranks.
  weights::SavedState save() const;
  void load(const weights::SavedState& state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera::rank
