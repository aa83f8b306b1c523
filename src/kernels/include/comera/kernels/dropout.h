// Dropout masks from counters, and dropout over rows.
//
// The mask: entry `feature` of the row (key, sample, position) owns 16 random bits and is kept when they are
// below a threshold. Features are taken 128 at a time. The 128 entries of group g need 16 calls of Philox
// 4x32-10, lane i = 0..15 with the counter (sample low, sample high, position, 16 g + i); its four words hold
// the bits of the entries 128 g + 32 w + i (low half of word w) and 128 g + 32 w + 16 + i (high half). So
// neighbours in memory are neighbours in a vector of any width up to 16 lanes, and all of them make the same
// mask.
#pragma once

#include <comera/base/random.h>

#include <cstdint>

namespace comera::kernels {

inline constexpr std::int64_t kMaskGroup = 128;  ///< features a group
inline constexpr std::int64_t kMaskLanes = 16;   ///< Philox calls a group

/// Keeps an entry with probability threshold / 65536.
struct KeepRule {
  std::uint64_t key = 0;
  std::uint32_t threshold = 65536;  ///< 1 .. 65536; 65536 keeps all

  bool keeps_all() const { return threshold == 65536; }
  /// What kept entries are multiplied with: one over the exact probability, so that the mean is unchanged.
  double scale() const { return 65536.0 / threshold; }
};

/// The rule that drops with probability p in [0, 1), rounded to a multiple of 1/65536 below 1.
inline KeepRule keep_rule(double p, std::uint64_t key) {
  const auto threshold = static_cast<std::uint32_t>((1 - p) * 65536 + 0.5);
  return {key, threshold < 1 ? 1 : threshold};
}

/// The definition above for one entry; what every other implementation is tested against.
inline bool keeps(const KeepRule& rule, std::uint64_t sample, std::uint32_t position, std::uint64_t feature) {
  const std::uint64_t group = feature / kMaskGroup, entry = feature % kMaskGroup;
  const auto block = static_cast<std::uint32_t>(group * kMaskLanes + entry % kMaskLanes);
  const PhiloxCounter words =
      philox({static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32), position, block},
             philox_key(rule.key));
  const std::uint64_t half = entry / kMaskLanes;
  const std::uint32_t bits = half % 2 == 0 ? words[half / 2] & 0xFFFF : words[half / 2] >> 16;
  return bits < rule.threshold;
}

/// Dropout of a contiguous [batch * positions, features]; row b * positions + t is position t of
/// sample_ids[b].
template <class T>
struct DropoutRows {
  const T* x;
  const T* residual;  ///< added to the result; null = none
  T* y;               ///< overwritten; may be x or the residual itself
  const std::int64_t* sample_ids;
  std::int64_t positions;
  std::int64_t features;
  KeepRule rule;
};

/// y = residual + dropout(x) for the rows first .. last - 1. Dropped entries of x count as 0 whatever they
/// are.
void dropout(const DropoutRows<float>& rows, std::int64_t first, std::int64_t last);
void dropout(const DropoutRows<double>& rows, std::int64_t first, std::int64_t last);

}  // namespace comera::kernels
