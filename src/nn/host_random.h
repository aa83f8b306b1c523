// Starting values of dense tensors: the same numbers on every machine and torch version.
#pragma once

#include <comera/base/random.h>
#include <comera/weights/torch.h>

#include <cstdint>

namespace comera::nn {

/// Standard normal values times `std`; entry i depends on (key, i).
inline torch::Tensor normal_tensor(torch::IntArrayRef sizes, double std, std::uint64_t key) {
  torch::Tensor values = torch::empty(sizes, torch::kFloat32);
  RandomStream stream(key);
  float* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<float>(std * stream.normal());
  return values;
}

}  // namespace comera::nn
