#include "cpu/select_isa.h"

#include <comera/kernels/layer_norm.h>

#include <cmath>

// foreach_target.h includes this file again for each instruction set, so the order here matters.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace comera::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Sum of `count` terms: whole vectors first, the rest one by one. A term says what it is for both.
template <class T, class Term>
HWY_INLINE T sum_over(std::int64_t count, const Term& term) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Add(even, term.vector(d, i));
    odd = hn::Add(odd, term.vector(d, i + lanes));
  }
  for (; i + lanes <= count; i += lanes) even = hn::Add(even, term.vector(d, i));
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < count; ++i) sum += term.number(i);
  return sum;
}

template <class T>
struct Value {
  const T* x;
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    return hn::LoadU(d, x + i);
  }
  HWY_INLINE T number(std::int64_t i) const { return x[i]; }
};

template <class T>
struct SquaredDifference {
  const T* x;
  T mean;
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    const auto difference = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(difference, difference);
  }
  HWY_INLINE T number(std::int64_t i) const { return (x[i] - mean) * (x[i] - mean); }
};

template <class T>
struct Moments {
  T mean, inverse;  // inverse = 1 / sqrt(variance + epsilon)
};

template <class T>
HWY_INLINE Moments<T> moments(const T* x, std::int64_t features, double epsilon) {
  const T mean = sum_over<T>(features, Value<T>{x}) / static_cast<T>(features);
  const T variance = sum_over<T>(features, SquaredDifference<T>{x, mean}) / static_cast<T>(features);
  return {mean, static_cast<T>(1 / std::sqrt(static_cast<double>(variance) + epsilon))};
}

template <class T>
void norm_rows(const LayerNormRows<T>& rows, std::int64_t first, std::int64_t last) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t row = first; row < last; ++row) {
    const T* x = rows.x + row * rows.features;
    T* y = rows.y + row * rows.features;
    const auto [mean, inverse] = moments(x, rows.features, rows.epsilon);
    std::int64_t i = 0;
    for (; i + lanes <= rows.features; i += lanes) {
      const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
      hn::StoreU(hn::MulAdd(unit, hn::LoadU(d, rows.weight + i), hn::LoadU(d, rows.bias + i)), d, y + i);
    }
    for (; i < rows.features; ++i) y[i] = (x[i] - mean) * inverse * rows.weight[i] + rows.bias[i];
  }
}

template <class T>
struct WeightedGradient {
  const T *dy, *weight;
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i));
  }
  HWY_INLINE T number(std::int64_t i) const { return dy[i] * weight[i]; }
};

template <class T>
struct WeightedGradientTimesUnit {
  const T *x, *dy, *weight;
  T mean, inverse;
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
    return hn::Mul(hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, weight + i)), unit);
  }
  HWY_INLINE T number(std::int64_t i) const { return dy[i] * weight[i] * ((x[i] - mean) * inverse); }
};

// With g = dy * weight and u = (x - mean) * inverse:  dx = inverse * (g - mean(g) - u * mean(g u)).
template <class T>
void norm_gradient_rows(const LayerNormGradientRows<T>& rows, std::int64_t first, std::int64_t last,
                        T* d_weight, T* d_bias) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T *weight = rows.weight, features = static_cast<T>(rows.features);
  for (std::int64_t row = first; row < last; ++row) {
    const T *x = rows.x + row * rows.features, *dy = rows.dy + row * rows.features;
    T* dx = rows.dx + row * rows.features;
    const auto [mean, inverse] = moments(x, rows.features, rows.epsilon);
    const T mean_g = sum_over<T>(rows.features, WeightedGradient<T>{dy, weight}) / features;
    const T mean_gu =
        sum_over<T>(rows.features, WeightedGradientTimesUnit<T>{x, dy, weight, mean, inverse}) / features;
    std::int64_t i = 0;
    for (; i + lanes <= rows.features; i += lanes) {
      const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
      const auto gradient = hn::LoadU(d, dy + i);
      const auto centred = hn::Sub(hn::Mul(gradient, hn::LoadU(d, weight + i)), hn::Set(d, mean_g));
      hn::StoreU(hn::MulAdd(gradient, unit, hn::LoadU(d, d_weight + i)), d, d_weight + i);
      hn::StoreU(hn::Add(hn::LoadU(d, d_bias + i), gradient), d, d_bias + i);
      hn::StoreU(hn::Mul(hn::NegMulAdd(unit, hn::Set(d, mean_gu), centred), hn::Set(d, inverse)), d, dx + i);
    }
    for (; i < rows.features; ++i) {
      const T unit = (x[i] - mean) * inverse, gradient = dy[i];
      d_weight[i] += gradient * unit;
      d_bias[i] += gradient;
      dx[i] = inverse * (gradient * weight[i] - mean_g - unit * mean_gu);
    }
  }
}

void norm_rows_float(const LayerNormRows<float>& rows, std::int64_t first, std::int64_t last) {
  norm_rows(rows, first, last);
}
void norm_rows_double(const LayerNormRows<double>& rows, std::int64_t first, std::int64_t last) {
  norm_rows(rows, first, last);
}
void norm_gradient_rows_float(const LayerNormGradientRows<float>& rows, std::int64_t first, std::int64_t last,
                              float* d_weight, float* d_bias) {
  norm_gradient_rows(rows, first, last, d_weight, d_bias);
}
void norm_gradient_rows_double(const LayerNormGradientRows<double>& rows, std::int64_t first,
                               std::int64_t last, double* d_weight, double* d_bias) {
  norm_gradient_rows(rows, first, last, d_weight, d_bias);
}

}  // namespace comera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace comera::kernels {

HWY_EXPORT(norm_rows_float);
HWY_EXPORT(norm_rows_double);
HWY_EXPORT(norm_gradient_rows_float);
HWY_EXPORT(norm_gradient_rows_double);

void layer_norm(const LayerNormRows<float>& rows, std::int64_t first, std::int64_t last) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(norm_rows_float)(rows, first, last);
}
void layer_norm(const LayerNormRows<double>& rows, std::int64_t first, std::int64_t last) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(norm_rows_double)(rows, first, last);
}
void layer_norm_gradient(const LayerNormGradientRows<float>& rows, std::int64_t first, std::int64_t last,
                         float* d_weight, float* d_bias) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(norm_gradient_rows_float)(rows, first, last, d_weight, d_bias);
}
void layer_norm_gradient(const LayerNormGradientRows<double>& rows, std::int64_t first, std::int64_t last,
                         double* d_weight, double* d_bias) {
  select_isa();
  HWY_DYNAMIC_DISPATCH(norm_gradient_rows_double)(rows, first, last, d_weight, d_bias);
}

}  // namespace comera::kernels
#endif
