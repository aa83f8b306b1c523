// Library products in tasks, so that the result does not depend on the number of threads.
//
// A threaded product may cut a long sum differently for every thread count. Here the work is cut by its shape
// alone and every product stays on the thread of its task.
#pragma once

#include "blas.h"
#include "parallel.h"

#include <torch/torch.h>

#include <cstdint>

namespace comera::ops {

/// Calls task(i) for i in [0, count): on the CPU in parallel, elsewhere one after the other. Tasks may use
/// torch operators; each must write to memory of its own.
template <class Task>
void run_tasks(std::int64_t count, bool on_cpu, const Task& task) {
  const auto run = [&](std::int64_t, std::int64_t i) {
    // Worker threads do not inherit the caller's autograd state.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const SerialBlas serial;
    task(i);
  };
  if (on_cpu) return for_each_task(count, run);
  for (std::int64_t i = 0; i < count; ++i) run(0, i);
}

}  // namespace comera::ops
