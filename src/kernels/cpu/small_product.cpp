#include "cpu/select_isa.h"

#include <comera/kernels/small_product.h>

// foreach_target.h includes this file again for each instruction set, so the order here matters.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/small_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace comera::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes. Where there are no instructions for it, Highway would read and write whole
// vectors, and so what lies behind them, which may be another thread's.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_some(D d, const T* from, std::size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(d, lanes);
#endif
}
template <class D, class T>
HWY_INLINE void store_some(D d, hn::Vec<D> values, T* to, std::size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(values, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN T lanes[hn::MaxLanes(D())];
  hn::Store(values, d, lanes);
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

// A tile of Rows x Vectors registers, kept there over all of k: Rows loads of one entry and Vectors of a
// vector feed Rows * Vectors multiply-adds. `last` lanes of the last vector are columns of c.
template <int Rows, int Vectors, bool Partial, class T>
HWY_INLINE void tile(const SmallProduct<T>& p, std::int64_t row, std::int64_t column, std::size_t last) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T* a = p.a + row * p.a_row;
  const T* b = p.b + column;
  V sums[Rows][Vectors];
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) sums[i][v] = hn::Zero(d);
  for (std::int64_t k = 0; k < p.k; ++k, a += p.a_column, b += p.b_row) {
    V right[Vectors];
    for (int v = 0; v < Vectors; ++v)
      right[v] =
          Partial && v + 1 == Vectors ? load_some(d, b + v * lanes, last) : hn::LoadU(d, b + v * lanes);
    for (int i = 0; i < Rows; ++i) {
      const V left = hn::Set(d, a[i * p.a_row]);
      for (int v = 0; v < Vectors; ++v) sums[i][v] = hn::MulAdd(left, right[v], sums[i][v]);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    T* c = p.c + (row + i) * p.c_row + column;
    for (int v = 0; v < Vectors; ++v, c += lanes) {
      if (Partial && v + 1 == Vectors) {
        const V before = p.add ? load_some(d, c, last) : hn::Zero(d);
        store_some(d, hn::Add(before, sums[i][v]), c, last);
      } else {
        hn::StoreU(p.add ? hn::Add(hn::LoadU(d, c), sums[i][v]) : sums[i][v], d, c);
      }
    }
  }
}

template <int Vectors, bool Partial, class T>
HWY_INLINE void strip(const SmallProduct<T>& p, std::int64_t column, std::size_t last) {
  constexpr int kRows = Vectors == 1 ? 12 : 6;
  std::int64_t row = 0;
  for (; row + kRows <= p.m; row += kRows) tile<kRows, Vectors, Partial>(p, row, column, last);
  if (Vectors == 1 && row + 6 <= p.m) tile<6, Vectors, Partial>(p, row, column, last), row += 6;
  switch (p.m - row) {
    case 5:
      return tile<5, Vectors, Partial>(p, row, column, last);
    case 4:
      return tile<4, Vectors, Partial>(p, row, column, last);
    case 3:
      return tile<3, Vectors, Partial>(p, row, column, last);
    case 2:
      return tile<2, Vectors, Partial>(p, row, column, last);
    case 1:
      return tile<1, Vectors, Partial>(p, row, column, last);
    default:
      return;
  }
}

template <class T>
HWY_INLINE void whole(const SmallProduct<T>& p) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t column = 0;
  for (; column + 2 * lanes <= p.n; column += 2 * lanes) strip<2, false>(p, column, 0);
  const std::int64_t rest = p.n - column;
  if (rest == 0) return;
  if (rest == lanes) return strip<1, false>(p, column, 0);
  if (rest < lanes) return strip<1, true>(p, column, static_cast<std::size_t>(rest));
  strip<2, true>(p, column, static_cast<std::size_t>(rest - lanes));
}

void whole_float(const SmallProduct<float>& product) { whole(product); }
void whole_double(const SmallProduct<double>& product) { whole(product); }

}  // namespace comera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace comera::kernels {

HWY_EXPORT(whole_float);
HWY_EXPORT(whole_double);

void small_product(const SmallProduct<float>& product) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(whole_float)(product);
}
void small_product(const SmallProduct<double>& product) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(whole_double)(product);
}

}  // namespace comera::kernels
#endif
