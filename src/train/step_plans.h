// Which layers of a model run by a plan of their own in a step, and the plans in use of a run.
#pragma once

#include <comera/exec/plan_book.h>
#include <comera/nn/factor_scope.h>
#include <comera/nn/model.h>
#include <comera/train/layer_groups.h>
#include <comera/train/recipe.h>

#include <string>
#include <vector>

namespace comera::train {

class StepPlans {
 public:
  /// Plans by the machine's saved profile, without one by that of a usual machine.
  explicit StepPlans(const Recipe& recipe);

  /// The layers with a plan for batches like this one; all others run in two groups.
  nn::LayerPlans find(const nn::Model& model, const BatchRows& rows);

  /// Spent on planning in the last find().
  double seconds() const { return seconds_; }
  std::vector<std::string> take_news();

  /// The plans of the model's present geometry.
  Json save(const nn::Model& model);
  void load(const Json& json) { book_.load(json, "the checkpoint's plans"); }

 private:
  bool automatic_;
  std::int64_t forwards_;
  double seconds_ = 0;
  std::vector<std::string> news_;
  exec::PlanBook book_;
};

}  // namespace comera::train
