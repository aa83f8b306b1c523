// The two things that plans are made of: one batched product and one permuting copy, into given memory.
#pragma once

#include <comera/weights/torch.h>

#include <cstdint>
#include <vector>

namespace comera::ops {

/// Memory seen as matrices: entry (i, row, col) is `batch * i + rows * row + cols * col` elements behind the
/// tensor's first. A batch stride of 0 repeats one matrix.
struct Matrices {
  torch::Tensor tensor;
  std::int64_t batch = 0, rows = 0, cols = 0;  ///< strides
};

struct ProductSize {
  std::int64_t batch = 1, m = 1, k = 1, n = 1;  ///< all 1 or more
};

/// result[i, m, n] = sum over k of left[i, m, k] * right[i, k, n], overwritten. In each of the three one of
/// the two matrix strides is 1, unless its dimension is 1. Below autograd: no graph is made. On the CPU the
/// work is cut by the sizes alone, so that the bits do not depend on the number of threads; results with
/// few columns take up to 1 MiB a thread of scratch memory, which is not torch's.
void product(const ProductSize& size, const Matrices& result, const Matrices& left, const Matrices& right);

/// The other order of dimensions: `from` lies contiguous as `sizes`, `to` becomes contiguous with dimension d
/// being dimension order[d] of `from`. Below autograd.
void permuting_copy(const torch::Tensor& to, const torch::Tensor& from,
                    const std::vector<std::int64_t>& sizes, const std::vector<int>& order);

}  // namespace comera::ops
