// What every implementation of attention needs to know besides q, k and v.
#pragma once

#include <comera/ops/dropout.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <optional>

namespace comera::ops {

struct AttentionOptions {
  std::int64_t heads = 1;
  std::optional<torch::Tensor> lengths;
  bool causal = false;
  DropoutMask mask;
};

}  // namespace comera::ops
