// The partial products of one side of a table, and their gradients. CPU.
#pragma once

#include "ttm_embedding/lookup.h"

#include <comera/weights/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace comera::ops::ttm {

using Tensors = std::vector<torch::Tensor>;

/// sum [width] = the rows of `values` that are members of `place`, added in order.
template <class T>
void sum_place(const T* values, std::int64_t width, const Members& members, std::int64_t place, T* sum) {
  std::int64_t i = members.starts[place];
  const std::int64_t end = members.starts[place + 1];
  if (i == end) {
    std::fill_n(sum, width, T{0});
    return;
  }
  std::copy_n(values + members.entries[i] * width, width, sum);
  for (++i; i < end; ++i) {
    const T* value = values + members.entries[i] * width;
    for (std::int64_t c = 0; c < width; ++c) sum[c] += value[c];
  }
}

/// The same for every place: values [entries, ...] -> [places, ...].
torch::Tensor sum_members(const torch::Tensor& values, const Members& members);

/// Products of every level j, [entries, n_1*..*n_j, r_j]. links[j] is core j of the chain, contiguous
/// [m_j, r_{j-1}, n_j, r_j], r_0 = 1 at the border.
Tensors chain_products(const Tensors& links, const Chain& chain);

/// Gradients of the links from that of the last level's products.
Tensors chain_gradients(torch::Tensor gradient, const Tensors& links, const Tensors& products,
                        const Chain& chain);

}  // namespace comera::ops::ttm
