#include <comera/ops/parallel.h>

#include <ATen/Parallel.h>

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for would run on one thread; compile this file with OpenMP"
#endif

namespace comera::ops {

void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  at::parallel_for(0, count, grain, work);
}

}  // namespace comera::ops
