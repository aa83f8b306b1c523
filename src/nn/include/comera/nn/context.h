// What a forward needs besides weights and inputs: whether it trains, and what its random numbers are keyed
// by.
#pragma once

#include <comera/base/random.h>
#include <comera/ops/dropout.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <functional>
#include <string>

namespace comera::nn {

struct Context {
  bool training = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  torch::Tensor sample_ids;  ///< [batch] int64
  torch::Tensor lengths;     ///< [batch] int64, real tokens of each sample

  /// Sees the result of every part by name, for diagnosis; usually empty.
  std::function<void(const std::string&, const torch::Tensor&)> observe;

  const torch::Tensor& seen(const std::string& part, const torch::Tensor& value) const {
    if (observe) observe(part, value);
    return value;
  }

  /// Dropout of one place in the model; no dropout outside training.
  ops::DropoutMask mask(double p, std::uint64_t site) const {
    return {training ? p : 0.0, random_key(seed, step, site), sample_ids};
  }
};

}  // namespace comera::nn
