// Builds the factors of all TT layers of a model together, once a step, and pulls their gradients back once.
#pragma once

#include <comera/nn/linear.h>
#include <comera/weights/torch.h>

#include <memory>
#include <vector>

namespace comera::nn {

/// While it lives, the TT layers of `model` use factors built at its start, equal shapes as one batched
/// product. Training: run any number of forwards and backwards (micro-batches add into the factors'
/// gradients), then pull_back() once, which adds the gradients of cores and scales. Without gradients
/// (evaluation) it only saves rebuilding. Ranks cannot change while it lives.
class FactorScope {
 public:
  explicit FactorScope(torch::nn::Module& model);
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
  bool training_;
};

}  // namespace comera::nn
