// The steps of a plan over tensors: what run_plan runs, and what the machine profile is measured with.
#pragma once

#include <comera/plan/plan.h>
#include <comera/weights/torch.h>

#include <functional>
#include <vector>

namespace comera::exec {

class Steps {
 public:
  /// `tokens`: rows of this run, at most the plan's. Keeps a reference to the plan.
  Steps(const plan::Plan& plan, std::int64_t tokens);

  std::vector<torch::Tensor>& values() { return values_; }  ///< by tensor id; undefined = not there

  /// Runs one step: permutes what has to be, multiplies, gives back what nothing later reads.
  void run(const plan::Step& step);
  /// Multiply-adds of a step with the tokens of this run.
  std::int64_t multiply_adds(const plan::Step& step) const;
  /// Sizes of a tensor, one a dimension, in ascending order of its indices.
  std::vector<std::int64_t> sizes(plan::Indices set) const;

 private:
  std::int64_t elements(plan::Indices set) const;
  /// Elements between neighbours along a group of indices of a contiguous tensor; 0 for none of them.
  std::int64_t stride(plan::Indices tensor, plan::Indices group) const;

  const plan::Plan& plan_;
  std::int64_t tokens_;
  std::vector<torch::Tensor> values_;
};

}  // namespace comera::exec
