#include "blas.h"

#include <comera/weights/torch.h>

#ifdef COMERA_TORCH_BLAS
extern "C" {
void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc);
}
#endif
#ifdef COMERA_TORCH_MKL
extern "C" int MKL_Set_Num_Threads_Local(int threads);
#endif

namespace comera::ops {
namespace {

#ifdef COMERA_TORCH_BLAS
// BLAS is column-major: a row-major product is the product of the transposes in the other order.
template <class T, class Gemm>
void multiply(Gemm routine, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a,
              MatrixView<T> b, T beta, T* c, std::int64_t c_stride) {
  const char a_form = a.transposed ? 'T' : 'N', b_form = b.transposed ? 'T' : 'N';
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  const int a_stride = static_cast<int>(a.stride), b_stride = static_cast<int>(b.stride);
  const int stride = static_cast<int>(c_stride);
  routine(&b_form, &a_form, &rows, &columns, &inner, &alpha, b.data, &b_stride, a.data, &a_stride, &beta, c,
          &stride);
}
#else
template <class T>
torch::Tensor as_tensor(const T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                        bool transposed) {
  return torch::from_blob(
      const_cast<T*>(data), {rows, columns},
      transposed ? std::vector<std::int64_t>{1, stride} : std::vector<std::int64_t>{stride, 1},
      torch::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

template <class T>
void multiply(std::nullptr_t, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, MatrixView<T> a,
              MatrixView<T> b, T beta, T* c, std::int64_t c_stride) {
  torch::Tensor result = as_tensor(c, m, n, c_stride, false);
  at::addmm_out(result, result, as_tensor(a.data, m, k, a.stride, a.transposed),
                as_tensor(b.data, k, n, b.stride, b.transposed), beta, alpha);
}
constexpr std::nullptr_t sgemm_ = nullptr, dgemm_ = nullptr;
#endif

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView<float> a,
          MatrixView<float> b, float beta, float* c, std::int64_t c_stride) {
  multiply(sgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a,
          MatrixView<double> b, double beta, double* c, std::int64_t c_stride) {
  multiply(dgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

#ifdef COMERA_TORCH_MKL
SerialBlas::SerialBlas() : previous_(MKL_Set_Num_Threads_Local(1)) {}
SerialBlas::~SerialBlas() { MKL_Set_Num_Threads_Local(previous_); }
#else
SerialBlas::SerialBlas() : previous_(0) {}
SerialBlas::~SerialBlas() = default;
#endif

}  // namespace comera::ops
