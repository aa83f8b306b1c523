// The row-wise part of attention between its products: softmax with dropout over a block of scores, and back.
// The probabilities live only in the block; log-sums are all that the backward needs.
#pragma once

#include <comera/kernels/dropout.h>

#include <cstdint>

namespace comera::kernels {

/// A block of scores [rows, width] of one (sample, head): row r is query first_query + r, column k is key k.
/// Rows lie `stride` entries apart, a multiple of 16 not below `width`; what lies between is scratch.
struct AttentionBlock {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;
  std::int64_t first_query = 0;
  bool causal = false;  ///< query t sees the keys <= t
  // The mask entry of (query, key) is the one of position query * heads + head and feature key.
  std::uint64_t sample = 0;
  std::int64_t heads = 1;
  std::int64_t head = 0;
  KeepRule rule;

  std::int64_t visible(std::int64_t row) const {
    const std::int64_t limit = first_query + row + 1;
    return causal && limit < width ? limit : width;
  }
};

/// The kernels of one instruction set, for T = float and double.
template <class T>
struct AttentionKernels {
  /// Overwrites the scores with keep * exp(score - row maximum), keys that a row does not see with 0. Row r
  /// of the probabilities after dropout is factors[r] times that. log_sums[r] = log sum exp(score), before
  /// dropout. Needs width >= 1.
  void (*softmax_dropout)(const AttentionBlock& block, T* scores, T* log_sums, T* factors);

  /// From scores and the gradients with respect to the probabilities after dropout, overwrites scores with
  /// those probabilities and gradients with the gradients of the scores. dots[r] = sum over keys of
  /// probability times gradient, which equals the product of a query's result with its gradient.
  void (*softmax_dropout_backward)(const AttentionBlock& block, T* scores, T* gradients, const T* log_sums,
                                   const T* dots);

  /// x[r] *= factors[r] for rows of `columns` entries, `stride` apart.
  void (*scale_rows)(std::int64_t rows, std::int64_t columns, const T* factors, T* x, std::int64_t stride);

  /// dots[r] = sum over columns of a[r] * b[r].
  void (*row_dots)(std::int64_t rows, std::int64_t columns, const T* a, std::int64_t a_stride, const T* b,
                   std::int64_t b_stride, T* dots);
};

/// Those of isa().
template <class T>
const AttentionKernels<T>& attention_kernels();

}  // namespace comera::kernels
