#include <comera/base/error.h>
#include <comera/train/metrics.h>

#include <algorithm>
#include <cmath>

namespace comera::train {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

const Metric& Evaluation::find(const std::string& name) const {
  for (const Metric& metric : metrics)
    if (metric.name == name) return metric;
  fail("[evaluation] no metric '{}'", name);
}

Json Evaluation::to_json() const {
  Json json{{"samples", samples}};
  for (const Metric& metric : metrics)
    json[metric.name] = {{"value", metric.value}, {"baseline", metric.baseline}};
  return json;
}

MetricSums::MetricSums(std::int64_t classes)
    : classes_(classes), targets_(classes), predictions_(classes), both_(classes) {
  check(classes >= 2, "[metrics] needs 2 classes or more, got {}", classes);
}

void MetricSums::add(std::int64_t target, std::int64_t predicted, double nats) {
  check(target >= 0 && target < classes_ && predicted >= 0 && predicted < classes_,
        "[metrics] class {} or {} is outside 0..{}", target, predicted, classes_ - 1);
  ++count_, ++targets_[target], ++predictions_[predicted];
  if (target == predicted) ++correct_, ++both_[target];
  nats_ += nats;
}

// Loss of always predicting the frequencies of the targets: their entropy.
double MetricSums::frequency_loss() const {
  double loss = 0;
  for (const std::int64_t n : targets_)
    if (n > 0) loss -= static_cast<double>(n) / count_ * std::log(static_cast<double>(n) / count_);
  return loss;
}

Evaluation MetricSums::classifier() const {
  check(count_ > 0, "[metrics] nothing was evaluated: the held-out data has no samples");
  const double n = count_;
  const double majority = *std::max_element(targets_.begin(), targets_.end()) / n;
  const auto f1 = [&](std::int64_t c) { return ratio(2.0 * both_[c], targets_[c] + predictions_[c]); };
  double f1_value = 0, f1_baseline = 0;
  if (classes_ == 2) {
    const double positive = targets_[1] / n;
    f1_value = f1(1);
    f1_baseline = ratio(2 * positive, 1 + positive);  // always class 1
  } else {
    for (std::int64_t c = 0; c < classes_; ++c) f1_value += f1(c) / classes_;
    f1_baseline = 2 * majority / (1 + majority) / classes_;
  }
  // Matthews correlation for any number of classes (Gorodkin 2004).
  double agreement = 0, target_square = 0, predicted_square = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    agreement += static_cast<double>(targets_[c]) * predictions_[c];
    target_square += static_cast<double>(targets_[c]) * targets_[c];
    predicted_square += static_cast<double>(predictions_[c]) * predictions_[c];
  }
  const double spread = std::sqrt((n * n - predicted_square) * (n * n - target_square));
  return {count_,
          {{"accuracy", correct_ / n, majority, true},
           {"f1", f1_value, f1_baseline, true},
           {"matthews", ratio(correct_ * n - agreement, spread), 0, true},
           {"loss", nats_ / n, frequency_loss(), false}}};
}

Evaluation MetricSums::tokens() const {
  check(count_ > 0, "[metrics] nothing was evaluated: the held-out data has no tokens to predict");
  const double n = count_, loss = nats_ / n;
  const double majority = *std::max_element(targets_.begin(), targets_.end()) / n;
  return {count_,
          {{"perplexity", std::exp(loss), std::exp(frequency_loss()), false},
           {"loss", loss, frequency_loss(), false},
           {"accuracy", correct_ / n, majority, true}}};
}

}  // namespace comera::train
