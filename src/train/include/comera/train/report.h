// The files and lines a run leaves: metrics.jsonl and metrics.csv (a line a step), events.jsonl (cuts and
// switches), progress lines for people, summary.json.
#pragma once

#include <comera/base/json.h>
#include <comera/nn/model.h>
#include <comera/train/metrics.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace comera::train {

/// One line of metrics.
struct StepRecord {
  std::int64_t step = 0;  ///< 1 = the first
  double loss = 0;        ///< nats a target, training batch
  double accuracy = 0;    ///< of the training batch
  double gradient_norm = 0;
  double learning_rate = 0;
  double seconds = 0;           ///< of the whole step, data included
  std::int64_t tokens = 0;      ///< real tokens
  std::int64_t parameters = 0;  ///< of the whole model
  double compression = 1;
  double median_rank = 0;       ///< of middle bonds; 0 without compressed layers
  std::int64_t peak_bytes = 0;  ///< most held by tensors during the step
  double plan_seconds = 0;      ///< spent on planning in it
  Json to_json() const;
};

/// Appends lines to files that may exist already (a resumed run): records after `from_step` are dropped
/// first, so that the files read as one run.
class RunLog {
 public:
  RunLog(const std::filesystem::path& folder, std::int64_t from_step);
  ~RunLog();
  void step(const StepRecord& record);
  /// `kind`: "evaluation", "cut", "switch", "checkpoint", ...
  void event(std::int64_t step, const std::string& kind, const Json& what);

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

/// "step 1200/4000  loss 1.031  acc 0.612  0.18 s  5.1k tok/s  params 0.74M (90x)  rank 17  peak 212 MB  eta
/// 8m12s". The loss and the time are means over the last records given.
class ProgressLine {
 public:
  explicit ProgressLine(std::int64_t steps) : steps_(steps) {}
  std::string add(const StepRecord& record);
  /// Median seconds of the newest records.
  double step_seconds() const;

 private:
  std::int64_t steps_;
  std::deque<StepRecord> window_;
};

/// Table of layers for --dry-run and reports.
std::string layer_table(const nn::Model& model);
Json layers_json(const nn::Model& model);
/// {total, cores, rank_scales, other, dense_total}.
Json parameters_json(const nn::ModelSize& size);

double median(std::vector<double> values);

}  // namespace comera::train
