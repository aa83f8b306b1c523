// What an evaluation measures, each figure with the value a model that ignores its input would get.
#pragma once

#include <comera/base/json.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::train {

struct Metric {
  std::string name;  ///< accuracy, f1, matthews, loss (nats), perplexity
  double value = 0;
  double baseline = 0;  ///< always the most frequent class, or the label frequencies themselves
  bool higher_is_better = true;
};

struct Evaluation {
  std::int64_t samples = 0;  ///< predictions counted
  std::vector<Metric> metrics;
  /// accuracy for classifiers, perplexity for token heads.
  const Metric& main() const { return metrics.front(); }
  const Metric& find(const std::string& name) const;
  Json to_json() const;
};

/// Counts predictions of a classifier or a token head.
class MetricSums {
 public:
  /// `classes`: number of labels or tokens.
  explicit MetricSums(std::int64_t classes);
  /// `nats`: cross-entropy of this prediction.
  void add(std::int64_t target, std::int64_t predicted, double nats);
  /// Accuracy, F1 (two classes: of class 1; more: mean over classes), Matthews correlation, loss.
  Evaluation classifier() const;
  /// Perplexity, loss, accuracy; baselines from the frequencies of the targets themselves.
  Evaluation tokens() const;

 private:
  double frequency_loss() const;
  std::int64_t classes_, count_ = 0, correct_ = 0;
  double nats_ = 0;
  std::vector<std::int64_t> targets_, predictions_, both_;
};

}  // namespace comera::train
