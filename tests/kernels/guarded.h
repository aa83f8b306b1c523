// A buffer between guard values, so that a kernel that writes outside its range is seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Room for `count` entries with guard values on both sides, off the vector alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, T value = T(0)) : data_(count + 2 * kGuard, kSentinel) {
    std::fill(begin(), begin() + count, value);
  }
  T* begin() { return data_.data() + kGuard; }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (data_[i] != kSentinel || data_[data_.size() - 1 - i] != kSentinel) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 33;
  static constexpr T kSentinel = T(-12345);
  std::vector<T> data_;
};
