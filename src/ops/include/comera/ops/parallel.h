// The one place of the project that starts threads.
#pragma once

#include <cstdint>
#include <functional>

namespace comera::ops {

/// Calls work(begin, end) on ranges that cover [0, count), of at least `grain` but for the last, on torch's
/// threads; once on the calling thread where a range is all there is, threads are 1, or a parallel region is
/// running. at::parallel_for must not be called elsewhere: a file compiled without OpenMP gets one thread
/// from it, and the BLAS inside then starts its own.
void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace comera::ops
