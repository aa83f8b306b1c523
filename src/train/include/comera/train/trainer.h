// The training loop: one optimiser step at a time, and the whole run around it.
#pragma once

#include <comera/base/json.h>
#include <comera/io/checkpoint.h>
#include <comera/train/recipe.h>
#include <comera/train/report.h>
#include <comera/train/task.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace comera::train {

/// Model, optimiser, rank controller and loader of a run, advanced a step at a time.
class Trainer {
 public:
  /// `task` must outlive the trainer. `overfit_batch`: every step sees the first batch, without dropout.
  /// `resume`: goes on from save(), the same bits as without the stop; Error when recipe or data differ.
  Trainer(const Recipe& recipe, const Task& task, bool overfit_batch = false,
          const io::Checkpoint* resume = nullptr);
  ~Trainer();

  /// One optimiser step. Throws Error that names the first layer when the loss or a gradient is not finite;
  /// weights are then as they were before the step.
  StepRecord step();
  /// Steps done.
  std::int64_t steps() const;
  /// What rank adaptation did since the last call, and (in `json`) the same for the log.
  std::vector<std::pair<std::string, Json>> take_events();
  /// At the end of a run that stops early: makes a size target true.
  void finish_ranks();

  /// False while the ranks are still above a size target.
  bool meets_target() const;

  Evaluation evaluate(std::int64_t samples = 0);
  nn::Model& model();

  io::Checkpoint save() const;

 private:
  void restore(const io::Checkpoint& checkpoint);
  struct State;
  std::unique_ptr<State> state_;
};

struct RunOptions {
  std::filesystem::path out;  ///< folder of the run
  bool resume = false;        ///< go on from out/last.ckpt
  bool overfit_batch = false;
  const std::atomic<bool>* stop = nullptr;  ///< when true: save and end after the step under way
  std::uint64_t idle_bytes = 0;             ///< measure_idle_bytes()
  Say say;                                  ///< lines for people
};

/// Trains to the end (or to a stop), leaves in `out`: recipe.toml, metrics.jsonl, metrics.csv, events.jsonl,
/// last.ckpt, best.ckpt (best main metric on held-out data among the models that meet a size target),
/// summary.json. Returns the summary: recipe, method, steps, interrupted, metric {name, value},
/// baseline_metric, evaluation, best, parameters, compression, step_seconds {first, last}, train_seconds,
/// peak_bytes, step_peak_bytes {first, last}, ranks {layer: [..]}, data, machine.
Json run_training(const Recipe& recipe, const Task& task, const RunOptions& options);

/// Sizes, layers and memory of the model a recipe describes, without data: what --dry-run prints.
Json dry_run(const Recipe& recipe, std::string* table);

}  // namespace comera::train
