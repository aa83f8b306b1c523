// Small products on raw pointers with row strides, through the BLAS inside libtorch.
#pragma once

#include <cstdint>

namespace comera::ops {

/// A row-major matrix, or its transpose: entry (i, j) is data[i * stride + j], transposed data[j * stride +
/// i].
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c [m, n] = alpha * a [m, k] * b [k, n] + beta * c, c row-major with the given stride; beta 0 overwrites.
/// m, n >= 1. Runs on the calling thread alone while a SerialBlas lives.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t c_stride);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t c_stride);

/// Keeps the BLAS from starting threads on the calling thread, so that sums have the same order whether a
/// task runs inside a parallel region or not.
class SerialBlas {
 public:
  SerialBlas();
  ~SerialBlas();
  SerialBlas(const SerialBlas&) = delete;
  SerialBlas& operator=(const SerialBlas&) = delete;

 private:
  int previous_;
};

}  // namespace comera::ops
