// Fixed tasks on the threads of torch.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace comera::ops {

/// Runs task(thread, i) for i in [0, count), each once. Threads take the next task when they are free, so
/// unequal tasks do not leave one waiting; as a task owns what it writes, who runs it changes nothing.
/// `thread` is below threads_for(count) and picks a workspace.
inline std::int64_t threads_for(std::int64_t count) {
  return at::in_parallel_region() ? 1 : std::clamp<std::int64_t>(count, 1, at::get_num_threads());
}

template <class Task>
void for_each_task(std::int64_t count, const Task& task) {
  std::atomic<std::int64_t> next = 0;
  at::parallel_for(0, threads_for(count), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t thread = first; thread < last; ++thread)
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(thread, i);
  });
}

}  // namespace comera::ops
