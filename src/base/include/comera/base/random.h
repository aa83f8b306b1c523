// Counter-based random numbers: Philox 4x32 with 10 rounds (Salmon et al., SC 2011).
// A value depends only on its key and counter, never on memory layout, thread or call order, so masks need
// not be stored, packed batches equal padded ones, and a resumed run repeats the uninterrupted one.
#pragma once

#include <array>
#include <cstdint>

namespace comera {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxCounter = std::array<std::uint32_t, 4>;

inline PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(right),
        static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Bijective mixing of 64 bits (the finaliser of splitmix64).
inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Key of one random site: the run's seed, the optimiser step, and the number of the place in the model.
inline std::uint64_t random_key(std::uint64_t seed, std::uint64_t step, std::uint64_t site) {
  return mix64(mix64(mix64(seed) ^ step) ^ site);
}

inline PhiloxKey philox_key(std::uint64_t key) {
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

/// A sequential generator over one key, for shuffles and initialisation on the host. Meets
/// UniformRandomBitGenerator; its whole state is (key, position), so it can be saved.
class RandomStream {
 public:
  using result_type = std::uint32_t;
  explicit RandomStream(std::uint64_t key, std::uint64_t position = 0) : key_(key), position_(position) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFFFFFFu; }
  result_type operator()() {
    const std::uint64_t block = position_ / 4;
    const auto values = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, philox_key(key_));
    return values[position_++ % 4];
  }

  /// Uniform integer in [0, bound), bound >= 1, without modulo bias.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1) with 53 bits.
  double uniform();
  /// Standard normal (Box-Muller, one value a call).
  double normal();

  std::uint64_t key() const { return key_; }
  std::uint64_t position() const { return position_; }

 private:
  std::uint64_t key_;
  std::uint64_t position_;
};

/// Fisher-Yates shuffle; the same stream gives the same order on every platform.
template <class Container>
void shuffle(Container& items, RandomStream& stream) {
  for (std::uint64_t i = items.size(); i > 1; --i) {
    using std::swap;
    swap(items[i - 1], items[stream.below(i)]);
  }
}

}  // namespace comera
