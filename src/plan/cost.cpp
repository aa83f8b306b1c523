#include <comera/base/error.h>
#include <comera/plan/cost.h>

#include <algorithm>

namespace comera::plan {

PredictedTime::PredictedTime(const Profile& profile, DType dtype)
    : single_(profile.single),
      batched_(profile.batched),
      element_(static_cast<double>(element_bytes(dtype))),
      bandwidth_(profile.bandwidth),
      copy_bandwidth_(profile.copy_bandwidth),
      start_(profile.start_seconds),
      highest_(std::max(single_.highest(), batched_.highest())) {
  validate(profile, "profile");
}

double PredictedTime::cost(const Work& work) const {
  // A batch may run as one call or item by item.
  double product = work.multiply_adds() / single_.rate(work.m, work.k, work.n) + (work.batch - 1) * start_;
  if (work.batch > 1)
    product = std::min(product, work.multiply_adds() / batched_.rate(work.m, work.k, work.n));
  return start_ * (1 + work.copies) + std::max(product, element_ * work.elements / bandwidth_) +
         2 * element_ * work.copied / copy_bandwidth_;
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
