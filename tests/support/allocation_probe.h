// Counts what torch allocates on the CPU, for tests of memory use.
#pragma once

#include <comera/weights/torch.h>

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace comera::test {

/// What torch's CPU allocations did since the probe was made or reset; memory from before is not counted.
struct AllocationCounts {
  std::int64_t count = 0;          ///< allocations
  std::int64_t total_bytes = 0;    ///< of all allocations, freed or not
  std::int64_t live_bytes = 0;     ///< allocated and not yet freed
  std::int64_t peak_bytes = 0;     ///< most bytes live at once
  std::int64_t largest_bytes = 0;  ///< largest single allocation
};

/// Watches every CPU allocation of torch, on all threads, from construction to destruction. One at a time.
///   AllocationProbe probe;
///   layer->forward(x).sum().backward();
///   EXPECT_LT(probe.counts().peak_bytes, bytes_of_w);
class AllocationProbe {
 public:
  AllocationProbe() : before_(c10::GetCPUAllocator()) {
    TORCH_CHECK(before_ != &allocator(), "only one AllocationProbe at a time");
    allocator().start(before_);
    c10::SetCPUAllocator(&allocator());
  }
  ~AllocationProbe() { c10::SetCPUAllocator(before_); }
  AllocationProbe(const AllocationProbe&) = delete;
  AllocationProbe& operator=(const AllocationProbe&) = delete;

  AllocationCounts counts() const { return allocator().counts(); }
  /// Starts counting again; what is live now counts as from before.
  void reset() { allocator().start(before_); }
  /// The peak from here on; what is live stays counted.
  void restart_peak() { allocator().restart_peak(); }

 private:
  class Allocator final : public c10::Allocator {
   public:
    void start(c10::Allocator* inner) {
      const std::lock_guard lock(mutex_);
      inner_ = inner;
      counts_ = {};
      watched_.clear();
    }
    void restart_peak() {
      const std::lock_guard lock(mutex_);
      counts_.peak_bytes = counts_.live_bytes;
    }
    AllocationCounts counts() {
      const std::lock_guard lock(mutex_);
      return counts_;
    }
    c10::DataPtr allocate(std::size_t bytes) override {
      auto inner = inner_->allocate(bytes);
      void* pointer = inner.get();
      // Without an allocation, or with a context of its own, there is nothing to hand on.
      if (!pointer || inner.get_context() != pointer) return inner;
      const std::lock_guard lock(mutex_);
      ++counts_.count;
      counts_.total_bytes += bytes;
      counts_.live_bytes += bytes;
      counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.live_bytes);
      counts_.largest_bytes = std::max<std::int64_t>(counts_.largest_bytes, bytes);
      watched_[pointer] = bytes;
      inner.release_context();
      return {pointer, pointer, &deallocate, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &deallocate; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
      default_copy_data(to, from, bytes);
    }

   private:
    static void deallocate(void* pointer) {
      Allocator& self = allocator();
      {
        const std::lock_guard lock(self.mutex_);
        if (const auto found = self.watched_.find(pointer); found != self.watched_.end()) {
          self.counts_.live_bytes -= found->second;
          self.watched_.erase(found);
        }
      }
      self.inner_->raw_deallocate(pointer);
    }

    std::mutex mutex_;
    c10::Allocator* inner_ = nullptr;
    AllocationCounts counts_;
    std::unordered_map<void*, std::int64_t> watched_;
  };

  // Lives as long as the process: tensors may outlive the probe.
  static Allocator& allocator() {
    static Allocator* const instance = new Allocator;
    return *instance;
  }

  c10::Allocator* before_;
};

}  // namespace comera::test
