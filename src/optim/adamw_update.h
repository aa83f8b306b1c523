// The inner loops of AdamW over plain arrays: no torch, no threads.
#pragma once

#include <cstdint>

namespace comera::optim {

/// What is the same for all parameters in one step.
struct AdamWStep {
  double beta1, beta2, epsilon;
  double correction1;       ///< 1 - beta1^t
  double sqrt_correction2;  ///< sqrt(1 - beta2^t)
  double gradient_scale;    ///< from clipping
};

/// One update of `count` entries: decay of the value first, then the step.
template <class T>
void adamw_update(const AdamWStep& step, double learning_rate, double weight_decay, std::int64_t count,
                  T* value, const T* gradient, T* first, T* second);

/// Sum of squares in fp64, in a fixed order.
template <class T>
double sum_of_squares(const T* values, std::int64_t count);

}  // namespace comera::optim
