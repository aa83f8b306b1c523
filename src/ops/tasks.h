// Runs library products in tasks, so that the result does not depend on the number of threads.
//
// A threaded BLAS call may cut a long sum differently for every thread count. Inside a parallel region it
// stays on the calling thread: work that is cut into tasks by its shape alone gives the same bits on any
// machine size.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

namespace comera::ops {

/// Calls task(i) for i in [0, count): on the CPU in parallel, each with single-threaded products; elsewhere
/// one after the other. Tasks write to their own parts of tensors that exist before.
template <class Task>
void run_tasks(std::int64_t count, bool on_cpu, const Task& task) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    // Worker threads do not inherit the caller's autograd state.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (std::int64_t i = begin; i < end; ++i) task(i);
  };
  if (!on_cpu) return run(0, count);
  // A range of one would run outside a parallel region, where the library threads itself: ask for two.
  at::parallel_for(0, std::max<std::int64_t>(count, 2), 1,
                   [&](std::int64_t begin, std::int64_t end) { run(begin, std::min(end, count)); });
}

}  // namespace comera::ops
