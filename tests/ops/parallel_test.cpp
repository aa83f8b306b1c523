#include <comera/ops/parallel.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

using namespace comera;

TEST(ParallelRanges, CoverEveryIndexOnce) {
  for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> seen(count);
    ops::parallel_ranges(count, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++seen[i];
    });
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& times) { return times == 1; }));
  }
}

TEST(ParallelRanges, RunInParallelRegionsOfTheThreadsAskedFor) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  std::vector<std::atomic<int>> ranges(3);
  std::atomic<int> inside = 0;
  ops::parallel_ranges(3, 1, [&](std::int64_t, std::int64_t) {
    ++ranges[at::get_thread_num()];
    if (at::in_parallel_region()) ++inside;
  });
  at::set_num_threads(threads);
  EXPECT_EQ(inside, 3);
  for (const auto& count : ranges) EXPECT_EQ(count, 1);
}
