// Runs library products in tasks, so that the result does not depend on the number of threads.
//
// A threaded BLAS call may cut a long sum differently for every thread count. In a task it stays on the
// calling thread: work that is cut into tasks by its shape alone gives the same bits on any machine size.
#pragma once

#include "blas.h"

#include <comera/ops/parallel.h>
#include <comera/weights/torch.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comera::ops {

/// Calls work(begin, end) on ranges that cover [0, count): on the CPU in parallel, with single-threaded
/// products; elsewhere once. Different ranges must write to different memory.
template <class Work>
void run_ranges(std::int64_t count, bool on_cpu, const Work& work) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    // Worker threads do not inherit the caller's autograd state.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const SerialBlas serial;
    if (begin < end) work(begin, end);
  };
  if (!on_cpu) return run(0, count);
  parallel_ranges(count, 1, run);
}

/// The same, one call of task(i) for every i.
template <class Task>
void run_tasks(std::int64_t count, bool on_cpu, const Task& task) {
  run_ranges(count, on_cpu, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(i);
  });
}

/// Threads that for_each_task uses at most.
inline std::int64_t threads_for(std::int64_t count) {
  return at::in_parallel_region() ? 1 : std::clamp<std::int64_t>(count, 1, at::get_num_threads());
}

/// task(thread, i) for every i, on the CPU; `thread` is below threads_for(count) and picks a workspace. A
/// thread takes the next task when it is free, so unequal tasks leave none waiting; as tasks own what they
/// write, who runs one changes nothing.
template <class Task>
void for_each_task(std::int64_t count, const Task& task) {
  std::atomic<std::int64_t> next = 0;
  run_tasks(threads_for(count), true, [&](std::int64_t thread) {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(thread, i);
  });
}

}  // namespace comera::ops
