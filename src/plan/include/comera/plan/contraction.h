// How one contraction runs: which indices are batch, rows, sum and columns of a product, and what has to be
// copied because it does not lie as one.
#pragma once

#include <comera/plan/cost.h>
#include <comera/plan/network.h>

namespace comera::plan {

/// result[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n]. Each group is a list of
/// indices in ascending order, and one dimension of the product. An operand that has no index of `batch` is
/// the same for all of it; no operand has a part of them. An operand is copied when its groups are not each
/// one stride or none but a batch index is innermost; the copy lies [batch, m, k] or [batch, k, n]. A copied
/// result is computed as [batch, m, n] and then permuted.
struct Way {
  Indices batch = 0, m = 0, k = 0, n = 0;
  bool swapped = false;  ///< the product's left is the contraction's right
  bool copy_left = false, copy_right = false, copy_result = false;  ///< of the product's operands
  Work work;
};

/// The way with the least cost among: no index but those on all three as batch; in addition the leading kept
/// indices of an operand, or of the result, as batch. left, right, result: open indices of the three.
Way best_way(const Openings& openings, Indices left, Indices right, Indices result,
             const Objective& objective);

/// The way for given batch indices; false when an operand has only a part of them.
bool way_for_batch(const Openings& openings, Indices left, Indices right, Indices result, Indices batch,
                   Way* way);

}  // namespace comera::plan
