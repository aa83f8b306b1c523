#include <comera/base/error.h>
#include <comera/base/machine.h>
#include <comera/train/memory.h>
#include <comera/weights/torch.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace comera::train {
namespace {

std::atomic<std::int64_t> held{0}, peak{0};

void count(std::int64_t bytes) {
  const std::int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void release(void* block) {
  if (!block) return;
  count(-static_cast<std::int64_t>(malloc_usable_size(block)));
  std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* block = nullptr;
    if (bytes > 0) {
      constexpr std::size_t kAlignment = 64;
      check(posix_memalign(&block, kAlignment, bytes) == 0,
            "out of memory: cannot get {} bytes for a tensor; lower train.batch_size or raise "
            "train.micro_batches",
            bytes);
      count(static_cast<std::int64_t>(malloc_usable_size(block)));
    }
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_allocation_counter() {
  static std::once_flag once;
  std::call_once(once, [] {
    // All blocks from the heap, and the heap never shrinks: thresholds alone end at 32 MB.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    static CountingAllocator allocator;
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
  });
}

std::int64_t allocated_bytes() { return held.load(); }
std::int64_t peak_allocated_bytes() { return peak.load(); }
void reset_peak_allocated_bytes() { peak.store(held.load()); }

void return_free_memory() { malloc_trim(0); }

std::uint64_t measure_idle_bytes() {
  const torch::Tensor small = torch::ones({64, 64});
  torch::mm(small, small);
  return resident_bytes();
}

}  // namespace comera::train
