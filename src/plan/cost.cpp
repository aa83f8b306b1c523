#include <comera/base/error.h>
#include <comera/plan/cost.h>

#include <algorithm>

namespace comera::plan {

namespace {

// Operands and results that are larger together come from memory.
constexpr double kCached = 16e6;

}  // namespace

PredictedTime::PredictedTime(const Profile& profile, DType dtype)
    : single_(profile.single),
      batched_(profile.batched),
      element_(static_cast<double>(element_bytes(dtype))),
      bandwidth_(profile.bandwidth),
      copy_bandwidth_(profile.copy_bandwidth),
      start_(profile.start_seconds),
      highest_(std::max(single_.highest(), batched_.highest())) {
  validate(profile, "profile");
  const auto rate = [&](const char* name) {
    const auto found = profile.rates.find(name);
    return found == profile.rates.end() ? bandwidth_ : found->second;
  };
  memory_read_ = rate("memory_read");
  memory_write_ = rate("memory_write");
}

double PredictedTime::cost(const Work& work) const {
  // Large products of a batch run one after the other, small ones side by side; both from one call.
  double product = work.multiply_adds() / single_.rate(work.m, work.k, work.n);
  if (work.batch > 1)
    product = std::min(product, work.multiply_adds() / batched_.rate(work.m, work.k, work.n));
  const double bytes = element_ * work.elements;
  product = std::max(product, bytes / bandwidth_);
  if (bytes > kCached)
    product = std::max(
        product, (bytes - element_ * work.written) / memory_read_ + element_ * work.written / memory_write_);
  return start_ * (1 + work.copies) + product + 2 * element_ * work.copied / copy_bandwidth_;
}

double PredictedTime::least(double multiply_adds, double elements) const {
  return start_ + std::max(multiply_adds / highest_, element_ * elements / bandwidth_);
}

std::string to_string(Goal goal) {
  switch (goal) {
    case Goal::multiply_adds:
      return "multiply_adds";
    case Goal::bytes:
      return "bytes";
    case Goal::time:
      return "time";
    case Goal::memory:
      return "memory";
  }
  return "";
}

Goal parse_goal(const std::string& name) {
  for (const Goal goal : {Goal::multiply_adds, Goal::bytes, Goal::time, Goal::memory})
    if (to_string(goal) == name) return goal;
  fail("[plan] unknown goal \"{}\"; known are multiply_adds, bytes, time, memory", name);
}

std::unique_ptr<Objective> tree_objective(Goal goal, const Profile& profile, DType dtype) {
  if (goal == Goal::multiply_adds) return std::make_unique<MultiplyAdds>();
  if (goal == Goal::bytes) return std::make_unique<BytesMoved>(dtype);
  return std::make_unique<PredictedTime>(profile, dtype);
}

std::unique_ptr<Objective> way_objective(Goal goal, const Profile& profile, DType dtype) {
  if (goal == Goal::bytes) return std::make_unique<BytesMoved>(dtype);
  if (goal == Goal::memory) return std::make_unique<Workspace>();
  return std::make_unique<PredictedTime>(profile, dtype);
}

}  // namespace comera::plan
