// The values of a weight where the algebra of this room is done: fp64 on the CPU, every core as [r, s, r'].
#pragma once

#include <comera/base/error.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <vector>

namespace comera::weights {

struct DoubleTrain {
  std::vector<torch::Tensor> cores, scales;
};

/// Not for dead weights. Throws Error naming `where` when a value is not finite.
inline DoubleTrain in_double(const TensorTrain& weight, const char* where) {
  const auto converted = [&](const torch::Tensor& tensor) {
    const torch::Tensor values = tensor.detach().to(torch::kCPU, torch::kDouble);
    check(values.isfinite().all().item<bool>(), "[{}] the weight has values that are not finite", where);
    return values;
  };
  DoubleTrain train;
  for (const auto& core : weight.cores())
    train.cores.push_back(converted(core).reshape({core.size(0), -1, core.size(-1)}));
  for (const auto& scale : weight.scales()) train.scales.push_back(converted(scale));
  return train;
}

}  // namespace comera::weights
