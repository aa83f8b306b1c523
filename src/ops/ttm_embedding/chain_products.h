// The partial products of one side of a table, and their gradients. CPU.
#pragma once

#include "ttm_embedding/lookup.h"

#include <comera/weights/torch.h>

#include <vector>

namespace comera::ops::ttm {

using Tensors = std::vector<torch::Tensor>;

/// Products of every level j, [entries, n_1*..*n_j, r_j]. links[j] is core j of the chain, contiguous
/// [m_j, r_{j-1}, n_j, r_j], r_0 = 1 at the border.
Tensors chain_products(const Tensors& links, const Chain& chain);

/// Gradients of the links from that of the last level's products.
Tensors chain_gradients(const torch::Tensor& gradient, const Tensors& links, const Tensors& products,
                        const Chain& chain);

}  // namespace comera::ops::ttm
