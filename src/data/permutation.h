// A random order of n things that is computed place by place, so that it needs no memory.
#pragma once

#include <comera/base/random.h>

#include <bit>
#include <cstdint>

namespace comera::data {

/// A bijection of [0, size) chosen by `key`: a balanced Feistel network over the next even power of two,
/// walked on until it lands inside (Black and Rogaway, CT-RSA 2002).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key)
      : size_(size), key_(key), half_bits_((std::bit_width(size - 1) + 1) / 2) {}

  std::uint64_t operator()(std::uint64_t index) const {
    do {
      index = encrypt(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr std::uint64_t kRounds = 6;

  std::uint64_t encrypt(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      // The function's upper bits are its best mixed ones.
      const std::uint64_t mixed =
          half_bits_ == 0 ? 0 : mix64(mix64(key_ + round) ^ right) >> (64 - half_bits_);
      left ^= mixed;
      std::swap(left, right);
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_;
};

}  // namespace comera::data
