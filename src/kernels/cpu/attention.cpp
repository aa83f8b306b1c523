#include "cpu/select_isa.h"

#include <comera/kernels/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>

// foreach_target.h includes this file again for each instruction set, so the order here matters.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "cpu/mask-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace comera::kernels::HWY_NAMESPACE {

/// exp that lets NaN through, so that a broken score is seen in the result.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

template <class T>
HWY_INLINE T row_maximum(const T* scores, std::int64_t count) {
  const hn::CappedTag<T, kMaskLanes> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto maximum = hn::Set(d, std::numeric_limits<T>::lowest());
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto inside = hn::FirstN(d, static_cast<std::size_t>(count - i));
    maximum = hn::Max(maximum, hn::IfThenElse(inside, hn::LoadU(d, scores + i), maximum));
  }
  return hn::GetLane(hn::MaxOfLanes(d, maximum));
}

template <class T>
void softmax_rows(const AttentionBlock& block, T* scores, T* log_sums, T* factors) {
  const hn::CappedTag<T, kMaskLanes> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < block.rows; ++row, scores += block.stride) {
    const std::int64_t count = block.visible(row);
    const T maximum = row_maximum(scores, count);
    RowMask mask(block.rule, block.sample, (block.first_query + row) * block.heads + block.head);
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (std::int64_t begin = 0; begin < count; begin += kMaskGroup) {
      if (!block.rule.keeps_all()) mask.fill(begin / kMaskGroup);
      for (const std::int64_t end = std::min(count, begin + kMaskGroup); i < end; i += lanes) {
        const auto inside = hn::FirstN(d, static_cast<std::size_t>(count - i));
        const auto shifted = hn::Sub(hn::LoadU(d, scores + i), hn::Set(d, maximum));
        const auto weight = hn::IfThenElseZero(inside, exp_of(d, shifted));
        sum = hn::Add(sum, weight);
        hn::StoreU(hn::IfThenElseZero(mask.keep(d, i - begin), weight), d, scores + i);
      }
    }
    if (i < block.width) std::fill(scores + i, scores + block.width, T(0));
    const T total = hn::GetLane(hn::SumOfLanes(d, sum));
    log_sums[row] = maximum + std::log(total);
    factors[row] = static_cast<T>(block.rule.scale()) / total;
  }
}

template <class T>
void softmax_backward_rows(const AttentionBlock& block, T* scores, T* gradients, const T* log_sums,
                           const T* dots) {
  const hn::CappedTag<T, kMaskLanes> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<T>(block.rule.scale()));
  for (std::int64_t row = 0; row < block.rows; ++row, scores += block.stride, gradients += block.stride) {
    const std::int64_t count = block.visible(row);
    const auto log_sum = hn::Set(d, log_sums[row]), dot = hn::Set(d, dots[row]);
    RowMask mask(block.rule, block.sample, (block.first_query + row) * block.heads + block.head);
    std::int64_t i = 0;
    for (std::int64_t begin = 0; begin < count; begin += kMaskGroup) {
      if (!block.rule.keeps_all()) mask.fill(begin / kMaskGroup);
      for (const std::int64_t end = std::min(count, begin + kMaskGroup); i < end; i += lanes) {
        const auto inside = hn::FirstN(d, static_cast<std::size_t>(count - i));
        const auto keep = mask.keep(d, i - begin);
        const auto probability =
            hn::IfThenElseZero(inside, exp_of(d, hn::Sub(hn::LoadU(d, scores + i), log_sum)));
        const auto kept = hn::IfThenElseZero(keep, hn::Mul(probability, scale));
        const auto gradient = hn::IfThenElseZero(inside, hn::LoadU(d, gradients + i));
        hn::StoreU(kept, d, scores + i);
        // probability * (keep * scale * gradient - dot)
        hn::StoreU(hn::NegMulAdd(probability, dot, hn::Mul(kept, gradient)), d, gradients + i);
      }
    }
    if (i < block.width) {
      std::fill(scores + i, scores + block.width, T(0));
      std::fill(gradients + i, gradients + block.width, T(0));
    }
  }
}

template <class T>
void scale_each_row(std::int64_t rows, std::int64_t columns, const T* factors, T* x, std::int64_t stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < rows; ++row, x += stride) {
    const auto factor = hn::Set(d, factors[row]);
    std::int64_t i = 0;
    for (; i + lanes <= columns; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factor), d, x + i);
    for (; i < columns; ++i) x[i] *= factors[row];
  }
}

template <class T>
void dot_each_row(std::int64_t rows, std::int64_t columns, const T* a, std::int64_t a_stride, const T* b,
                  std::int64_t b_stride, T* dots) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = 0; row < rows; ++row, a += a_stride, b += b_stride) {
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + lanes <= columns; i += lanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
    dots[row] = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < columns; ++i) dots[row] += a[i] * b[i];
  }
}

template <class T>
AttentionKernels<T> table() {
  return {softmax_rows<T>, softmax_backward_rows<T>, scale_each_row<T>, dot_each_row<T>};
}
AttentionKernels<float> float_table() { return table<float>(); }
AttentionKernels<double> double_table() { return table<double>(); }

}  // namespace comera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace comera::kernels {

HWY_EXPORT(float_table);
HWY_EXPORT(double_table);

template <>
const AttentionKernels<float>& attention_kernels<float>() {
  static const AttentionKernels<float> kernels = (select_isa(), HWY_DYNAMIC_DISPATCH(float_table)());
  return kernels;
}
template <>
const AttentionKernels<double>& attention_kernels<double>() {
  static const AttentionKernels<double> kernels = (select_isa(), HWY_DYNAMIC_DISPATCH(double_table)());
  return kernels;
}

}  // namespace comera::kernels
#endif
