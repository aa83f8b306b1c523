// Layer norm over the rows of a matrix, and its gradients.
#pragma once

#include <cstdint>

namespace comera::kernels {

/// Contiguous [rows, features]. The mean and the variance of a row are taken in two passes over it.
template <class T>
struct LayerNormRows {
  const T* x;
  const T* weight;  ///< [features]
  const T* bias;    ///< [features]
  T* y;             ///< overwritten; may be x
  std::int64_t features;
  double epsilon;  ///< added to the variance
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias for the rows first .. last - 1.
void layer_norm(const LayerNormRows<float>& rows, std::int64_t first, std::int64_t last);
void layer_norm(const LayerNormRows<double>& rows, std::int64_t first, std::int64_t last);

template <class T>
struct LayerNormGradientRows {
  const T* x;
  const T* weight;
  const T* dy;
  T* dx;  ///< overwritten; may be dy
  std::int64_t features;
  double epsilon;
};

/// dx for the rows first .. last - 1; adds their parts of the gradients of weight and bias, row after row, to
/// d_weight and d_bias [features].
void layer_norm_gradient(const LayerNormGradientRows<float>& rows, std::int64_t first, std::int64_t last,
                         float* d_weight, float* d_bias);
void layer_norm_gradient(const LayerNormGradientRows<double>& rows, std::int64_t first, std::int64_t last,
                         double* d_weight, double* d_bias);

}  // namespace comera::kernels
