// The random bits of one mask group and the test whether an entry is kept; included once an instruction set.
#if defined(COMERA_KERNELS_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMERA_KERNELS_MASK_INL_H_
#undef COMERA_KERNELS_MASK_INL_H_
#else
#define COMERA_KERNELS_MASK_INL_H_
#endif

#include <comera/kernels/dropout.h>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace comera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One row of a mask: fills and reads the words of one group after the other.
class RowMask {
 public:
  RowMask(const KeepRule& rule, std::uint64_t sample, std::uint64_t position)
      : key_(philox_key(rule.key)),
        threshold_(static_cast<std::int32_t>(rule.threshold)),
        sample_low_(static_cast<std::uint32_t>(sample)),
        sample_high_(static_cast<std::uint32_t>(sample >> 32)),
        position_(static_cast<std::uint32_t>(position)) {}

  /// Computes the bits of the group; word w of lane i goes to words_[16 w + i].
  HWY_INLINE void fill(std::uint64_t group) {
    const std::uint64_t first = group * kMaskLanes;
#if HWY_TARGET == HWY_SCALAR
    for (std::uint32_t lane = 0; lane < kMaskLanes; ++lane) {
      const PhiloxCounter words =
          philox({sample_low_, sample_high_, position_, static_cast<std::uint32_t>(first + lane)}, key_);
      for (int w = 0; w < 4; ++w) words_[w * kMaskLanes + lane] = words[w];
    }
#else
    // A counter sits in the low half of a 64-bit lane, where the widening product reads it; what lands in the
    // high half is never read. Even and odd counters run apart and are interleaved at the end.
    const hn::CappedTag<std::uint64_t, kMaskLanes / 2> d64;
    const hn::Repartition<std::uint32_t, decltype(d64)> d32;
    const std::size_t lanes = hn::Lanes(d32);
    for (std::size_t lane = 0; lane < kMaskLanes; lane += lanes) {
      const auto iota = hn::Iota(d64, 0);
      const auto even = hn::Add(hn::Add(iota, iota), hn::Set(d64, first + lane));
      const auto odd = hn::Add(even, hn::Set(d64, 1));
      auto a0 = hn::Set(d64, sample_low_), a1 = hn::Set(d64, sample_high_), a2 = hn::Set(d64, position_),
           a3 = even;
      auto b0 = a0, b1 = a1, b2 = a2, b3 = odd;
      const auto m0 = hn::Set(d32, 0xD2511F53u), m1 = hn::Set(d32, 0xCD9E8D57u);
      std::uint32_t k0 = key_[0], k1 = key_[1];
      for (int round = 0; round < 10; ++round) {
        const auto key0 = hn::Set(d64, k0), key1 = hn::Set(d64, k1);
        const auto a_left = hn::MulEven(hn::BitCast(d32, a0), m0);
        const auto b_left = hn::MulEven(hn::BitCast(d32, b0), m0);
        const auto a_right = hn::MulEven(hn::BitCast(d32, a2), m1);
        const auto b_right = hn::MulEven(hn::BitCast(d32, b2), m1);
        a0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a_right), a1), key0);
        b0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b_right), b1), key0);
        a2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a_left), a3), key1);
        b2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b_left), b3), key1);
        a1 = a_right, b1 = b_right, a3 = a_left, b3 = b_left;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
      }
      store(d64, d32, a0, b0, 0, lane);
      store(d64, d32, a1, b1, 1, lane);
      store(d64, d32, a2, b2, 2, lane);
      store(d64, d32, a3, b3, 3, lane);
    }
#endif
  }

  /// Whether the entries `entry` .. `entry` + Lanes(d) - 1 of the filled group are kept; `entry` is a
  /// multiple of the lane count, which divides 16.
  template <class D>
  HWY_INLINE hn::Mask<D> keep(D d, std::size_t entry) const {
    const hn::Rebind<std::uint32_t, D> du32;
    const hn::Rebind<std::int32_t, D> di32;
    const auto word = hn::LoadU(du32, words_ + entry / 32 * kMaskLanes + entry % kMaskLanes);
    const auto half = (entry & 16) == 0 ? hn::And(word, hn::Set(du32, 0xFFFF)) : hn::ShiftRight<16>(word);
    const auto bits = hn::BitCast(di32, half);
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      return hn::RebindMask(d, hn::Lt(bits, hn::Set(di32, threshold_)));
    } else {
      const hn::Rebind<std::int64_t, D> di64;
      return hn::RebindMask(d, hn::Lt(hn::PromoteTo(di64, bits), hn::Set(di64, threshold_)));
    }
  }

 private:
#if HWY_TARGET != HWY_SCALAR
  template <class D64, class D32, class V>
  HWY_INLINE void store(D64 d64, D32 d32, V even, V odd, int word, std::size_t lane) {
    const auto low = hn::And(even, hn::Set(d64, 0xFFFFFFFFu));
    hn::StoreU(hn::BitCast(d32, hn::Or(low, hn::ShiftLeft<32>(odd))), d32, words_ + word * kMaskLanes + lane);
  }
#endif

  PhiloxKey key_;
  std::int32_t threshold_;
  std::uint32_t sample_low_, sample_high_, position_;
  // Zero words keep every entry, which serves rows without dropout.
  alignas(64) std::uint32_t words_[4 * kMaskLanes] = {};
};

}  // namespace comera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
