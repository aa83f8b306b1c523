// How the TT layers of a model run for one step: by plans of their own, or with factors that are built
// together, once a step, and whose gradients are pulled back once.
#pragma once

#include <comera/nn/linear.h>
#include <comera/weights/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace comera::nn {

/// Plans of layers by their names in the model.
using LayerPlans = std::map<std::string, exec::SharedPlan>;

/// While it lives, the TT layers of `model` use factors built at its start, equal shapes as one batched
/// product. Training: run any number of forwards and backwards (micro-batches add into the factors'
/// gradients), then pull_back() once, which adds the gradients of cores and scales. Without gradients
/// (evaluation) it only saves rebuilding. A layer with a plan runs by it instead, and its gradients need no
/// pulling back. Ranks cannot change while it lives.
class FactorScope {
 public:
  explicit FactorScope(torch::nn::Module& model, const LayerPlans& plans = {});
  ~FactorScope();
  FactorScope(const FactorScope&) = delete;
  FactorScope& operator=(const FactorScope&) = delete;
  void pull_back();

 private:
  struct Group {
    std::vector<TtLinearImpl*> layers;
    torch::Tensor a, b;                    // [layers, in, r], [layers, r, out], with graph
    torch::Tensor a_gradient, b_gradient;  // the leaves' gradients are views of these
  };
  std::vector<Group> groups_;
  std::vector<TtLinearImpl*> planned_;
  bool training_;
};

}  // namespace comera::nn
