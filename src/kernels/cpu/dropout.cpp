#include "cpu/select_isa.h"

#include <comera/kernels/dropout.h>

#include <algorithm>

// foreach_target.h includes this file again for each instruction set, so the order here matters.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "cpu/mask-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace comera::kernels::HWY_NAMESPACE {

template <class T>
void drop_rows(const DropoutRows<T>& rows, std::int64_t first, std::int64_t last) {
  const hn::CappedTag<T, kMaskLanes> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<T>(rows.rule.scale()));
  for (std::int64_t row = first; row < last; ++row) {
    RowMask mask(rows.rule, static_cast<std::uint64_t>(rows.sample_ids[row / rows.positions]),
                 static_cast<std::uint64_t>(row % rows.positions));
    for (std::int64_t begin = 0; begin < rows.features; begin += kMaskGroup) {
      mask.fill(begin / kMaskGroup);
      const std::int64_t count = std::min(kMaskGroup, rows.features - begin);
      const T* x = rows.x + row * rows.features + begin;
      const T* residual = rows.residual ? rows.residual + row * rows.features + begin : nullptr;
      T* y = rows.y + row * rows.features + begin;
      std::int64_t i = 0;
      for (; i + lanes <= count; i += lanes) {
        const auto kept = hn::IfThenElseZero(mask.keep(d, i), hn::LoadU(d, x + i));
        const auto base = residual ? hn::LoadU(d, residual + i) : hn::Zero(d);
        hn::StoreU(hn::MulAdd(kept, scale, base), d, y + i);
      }
      if (i < count) {
        HWY_ALIGN T tail[kMaskLanes] = {}, base_tail[kMaskLanes] = {};
        std::copy(x + i, x + count, tail);
        if (residual) std::copy(residual + i, residual + count, base_tail);
        const auto kept = hn::IfThenElseZero(mask.keep(d, i), hn::Load(d, tail));
        hn::Store(hn::MulAdd(kept, scale, hn::Load(d, base_tail)), d, tail);
        std::copy(tail, tail + (count - i), y + i);
      }
    }
  }
}

void drop_rows_float(const DropoutRows<float>& rows, std::int64_t first, std::int64_t last) {
  drop_rows(rows, first, last);
}
void drop_rows_double(const DropoutRows<double>& rows, std::int64_t first, std::int64_t last) {
  drop_rows(rows, first, last);
}

}  // namespace comera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace comera::kernels {

HWY_EXPORT(drop_rows_float);
HWY_EXPORT(drop_rows_double);

void dropout(const DropoutRows<float>& rows, std::int64_t first, std::int64_t last) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(drop_rows_float)(rows, first, last);
}
void dropout(const DropoutRows<double>& rows, std::int64_t first, std::int64_t last) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(drop_rows_double)(rows, first, last);
}

}  // namespace comera::kernels
#endif
