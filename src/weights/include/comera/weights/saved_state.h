// What an optimiser or a rank controller writes into a checkpoint.
#pragma once

#include <comera/base/json.h>
#include <comera/weights/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace comera::weights {

/// Loading it gives the same bits as never having stopped. Names are unique and stable. Tensors may be views
/// of live storage: write or copy them before the next step. Loading copies.
struct SavedState {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  Json values;
};

}  // namespace comera::weights
