#include <comera/plan/contraction.h>

#include <bit>

namespace comera::plan {
namespace {

Indices lowest(Indices set) { return set & (~set + 1); }
Indices highest(Indices set) { return std::bit_floor(set); }
// All indices below the lowest of `set`.
Indices before(Indices set) { return lowest(set) - 1; }

// Whether the indices `group` of a tensor follow each other, so that they are one dimension with one stride.
bool one_stride(Indices tensor, Indices group) {
  if (group == 0) return true;
  const Indices span = (highest(group) - lowest(group)) | highest(group);
  return (tensor & span) == group;
}

// Whether a tensor lies as batched matrices: each group one stride, and one of the matrix's strides is 1.
bool lies_as_matrices(Indices tensor, Indices batch, Indices rows, Indices cols) {
  if (!one_stride(tensor, tensor & batch) || !one_stride(tensor, rows) || !one_stride(tensor, cols))
    return false;
  return (rows | cols) == 0 || (highest(tensor) & batch) == 0;
}

// The run of indices in `from` with which `tensor` starts.
Indices leading(Indices tensor, Indices from) {
  const Indices others = tensor & ~from;
  return others ? tensor & before(others) : tensor;
}

}  // namespace

bool way_for_batch(const Openings& openings, Indices left, Indices right, Indices result, Indices batch,
                   Way* way) {
  const Indices large = openings.large();
  for (const Indices operand : {left, right})
    if (const Indices part = operand & batch & large; part != 0 && part != (batch & large)) return false;

  *way = Way{};
  way->batch = batch;
  way->k = left & right & ~result;
  way->m = left & result & ~batch;
  way->n = right & result & ~batch;
  // Rows come before columns in the result, so that the product can write in place.
  if ((way->m & large) && (way->n & large) && lowest(way->n & large) < lowest(way->m & large)) {
    way->swapped = true;
    std::swap(way->m, way->n);
    std::swap(left, right);
  }
  const auto copied = [&](Indices tensor, Indices rows, Indices cols) {
    return !lies_as_matrices(tensor & large, batch & large, rows & large, cols & large);
  };
  way->copy_left = copied(left, way->m, way->k);
  way->copy_right = copied(right, way->k, way->n);
  way->copy_result = copied(result, way->m, way->n);

  Work& work = way->work;
  work.batch = openings.elements(batch);
  work.m = openings.elements(way->m);
  work.k = openings.elements(way->k);
  work.n = openings.elements(way->n);
  const double sizes[] = {openings.elements(left), openings.elements(right), openings.elements(result)};
  const bool copies[] = {way->copy_left, way->copy_right, way->copy_result};
  for (int i = 0; i < 3; ++i) {
    work.elements += sizes[i];
    if (i == 2) work.written = sizes[i];
    work.copied += copies[i] ? sizes[i] : 0;
    work.copies += copies[i];
  }
  return true;
}

Way best_way(const Openings& openings, Indices left, Indices right, Indices result,
             const Objective& objective) {
  const Indices large = openings.large(), shared = left & right & result;
  Way best;
  way_for_batch(openings, left, right, result, shared, &best);
  if (best.work.copies == 0) return best;

  // Batching over what comes first can save the copies. Not together with indices that all three have: an
  // operand would have a part of the batch.
  if (shared & large) return best;
  const Indices sum = left & right & ~result & large;
  Indices tried[4], count = 0;
  const auto add = [&](Indices batch) {
    if (batch == 0) return;
    for (Indices i = 0; i < count; ++i)
      if (tried[i] == batch) return;
    tried[count++] = batch;
  };
  if (sum) {
    add(left & large & before(left & sum));
    add(right & large & before(right & sum));
  }
  add(leading(result & large, left));
  add(leading(result & large, right));
  double least = objective.cost(best.work);
  for (Indices i = 0; i < count; ++i) {
    Way way;
    if (!way_for_batch(openings, left, right, result, shared | tried[i], &way)) continue;
    if (const double cost = objective.cost(way.work); cost < least) least = cost, best = way;
  }
  return best;
}

}  // namespace comera::plan
