#include "adamw_update.h"

#include <cmath>

namespace comera::optim {

template <class T>
void adamw_update(const AdamWStep& step, double learning_rate, double weight_decay, std::int64_t count,
                  T* __restrict value, const T* __restrict gradient, T* __restrict first,
                  T* __restrict second) {
  const T beta1 = step.beta1, beta2 = step.beta2, rest1 = 1 - step.beta1, rest2 = 1 - step.beta2;
  const T epsilon = step.epsilon, scale = step.gradient_scale, sqrt_correction2 = step.sqrt_correction2;
  const T keep = 1 - learning_rate * weight_decay, rate = learning_rate / step.correction1;
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * scale;
    const T m = beta1 * first[i] + rest1 * g;
    const T v = beta2 * second[i] + rest2 * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = keep * value[i] - rate * m / (std::sqrt(v) / sqrt_correction2 + epsilon);
  }
}

template <class T>
double sum_of_squares(const T* values, std::int64_t count) {
  // Eight sums, so that the compiler can keep them side by side without reordering any one of them.
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      sums[lane] += x * x;
    }
  for (; i < count; ++i) {
    const double x = values[i];
    sums[0] += x * x;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template void adamw_update(const AdamWStep&, double, double, std::int64_t, float*, const float*, float*,
                           float*);
template void adamw_update(const AdamWStep&, double, double, std::int64_t, double*, const double*, double*,
                           double*);
template double sum_of_squares(const float*, std::int64_t);
template double sum_of_squares(const double*, std::int64_t);

}  // namespace comera::optim
