// Matrix products whose second factor stays in the first-level cache: what a table's look-up is made of. A
// library's product of this size spends its time on the call and on packing.
#pragma once

#include <cstdint>

namespace comera::kernels {

/// c [m, n] = a [m, k] * b [k, n], or c += when `add`. Entry (i, j) of a is a[i * a_row + j * a_column], so
/// that either factor of a gradient can be read transposed; b and c are row-major with rows b_row and c_row
/// apart. c overlaps neither. Each entry of c is summed over k in order, whatever m and n are.
template <class T>
struct SmallProduct {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  bool add;
};

void small_product(const SmallProduct<float>& product);
void small_product(const SmallProduct<double>& product);

}  // namespace comera::kernels
