#include "attention/fused.h"

#include "blas.h"
#include "parallel.h"

#include <comera/kernels/attention.h>

#include <algorithm>
#include <cmath>

namespace comera::ops {
namespace {

using torch::Tensor;

/// Scores held at once by a thread: enough rows that the products run well, few enough to stay in cache.
constexpr std::int64_t kBlockScores = 128 * 1024, kMaximumRows = 128, kMinimumRows = 16;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t block_rows(std::int64_t positions) {
  const std::int64_t fitting =
      kBlockScores / std::max<std::int64_t>(1, positions) / kMinimumRows * kMinimumRows;
  return std::clamp(fitting, kMinimumRows, kMaximumRows);
}

/// One head of a [batch, positions, heads * d] tensor: rows `stride` entries apart.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  T* row(std::int64_t position) const { return data + position * stride; }
};

// A lone position may have any stride, which the BLAS would refuse.
std::int64_t row_stride(const Tensor& x) { return x.size(1) == 1 ? x.size(2) : x.stride(1); }

template <class T>
HeadRows<const T> head_of(const Tensor& x, std::int64_t sample, std::int64_t head, std::int64_t d) {
  return {x.const_data_ptr<T>() + sample * x.stride(0) + head * d, row_stride(x)};
}

template <class T>
HeadRows<T> writable_head_of(const Tensor& x, std::int64_t sample, std::int64_t head, std::int64_t d) {
  return {x.mutable_data_ptr<T>() + sample * x.stride(0) + head * d, row_stride(x)};
}

template <class T>
void zero_rows(HeadRows<T> rows, std::int64_t first, std::int64_t last, std::int64_t d) {
  for (std::int64_t t = first; t < last; ++t) std::fill_n(rows.row(t), d, T(0));
}

/// Features side by side and rows apart, as the products need them; slices of a wider tensor are taken as
/// they are.
Tensor with_adjacent_features(const Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) >= x.size(2) ? x : x.contiguous();
}

struct Shape {
  std::int64_t batch, positions, heads, d, rows, blocks, scores;

  Shape(const Tensor& q, const AttentionOptions& options)
      : batch(q.size(0)),
        positions(q.size(1)),
        heads(options.heads),
        d(q.size(2) / options.heads),
        rows(block_rows(q.size(1))),
        blocks((q.size(1) + rows - 1) / rows),
        scores(std::min(rows, q.size(1)) * round_up(q.size(1), kernels::kMaskLanes)) {}
};

/// The block of queries [first, last) of one (sample, head).
kernels::AttentionBlock score_block(const AttentionOptions& options, std::int64_t sample, std::int64_t head,
                                    std::int64_t first, std::int64_t last, std::int64_t length) {
  kernels::AttentionBlock block;
  block.rows = last - first;
  block.width = options.causal ? last : length;
  block.stride = round_up(block.width, kernels::kMaskLanes);
  block.first_query = first;
  block.causal = options.causal;
  block.heads = options.heads;
  block.head = head;
  block.rule = options.rule;
  if (!options.rule.keeps_all())
    block.sample = static_cast<std::uint64_t>(options.sample_ids.const_data_ptr<std::int64_t>()[sample]);
  return block;
}

std::int64_t length_of(const AttentionOptions& options, std::int64_t sample, std::int64_t positions) {
  return options.lengths ? options.lengths->const_data_ptr<std::int64_t>()[sample] : positions;
}

template <class T>
void forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
             const Tensor& result, const Tensor& log_sums) {
  const Shape shape(q, options);
  const kernels::AttentionKernels<T>& kernel = kernels::attention_kernels<T>();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.d)));
  const std::int64_t tasks = shape.batch * shape.heads * shape.blocks;
  const Tensor workspace = torch::empty({threads_for(tasks), shape.scores + shape.rows}, q.options());
  for_each_task(tasks, [&](std::int64_t thread, std::int64_t task) {
    const SerialBlas serial;
    const std::int64_t sample = task / shape.blocks / shape.heads, head = task / shape.blocks % shape.heads;
    const std::int64_t length = length_of(options, sample, shape.positions);
    const std::int64_t begin = task % shape.blocks * shape.rows,
                       end = std::min(begin + shape.rows, shape.positions);
    const std::int64_t first = std::min(begin, length), last = std::min(end, length);
    T* sums = log_sums.mutable_data_ptr<T>() + (sample * shape.heads + head) * shape.positions;
    const HeadRows<T> out = writable_head_of<T>(result, sample, head, shape.d);
    zero_rows(out, std::max(begin, last), end, shape.d);
    std::fill(sums + std::max(begin, last), sums + end, T(0));
    if (first == last) return;

    const kernels::AttentionBlock block = score_block(options, sample, head, first, last, length);
    T* scores = workspace.mutable_data_ptr<T>() + thread * workspace.size(1);
    T* factors = scores + shape.scores;
    const auto queries = head_of<T>(q, sample, head, shape.d), keys = head_of<T>(k, sample, head, shape.d),
               values = head_of<T>(v, sample, head, shape.d);
    gemm(block.rows, block.width, shape.d, scale, {queries.row(first), queries.stride},
         {keys.data, keys.stride, true}, T(0), scores, block.stride);
    kernel.softmax_dropout(block, scores, sums + first, factors);
    gemm(block.rows, shape.d, block.width, T(1), {scores, block.stride}, {values.data, values.stride}, T(0),
         out.row(first), out.stride);
    kernel.scale_rows(block.rows, shape.d, factors, out.row(first), out.stride);
  });
}

template <class T>
void backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& result,
              const Tensor& log_sums, const AttentionOptions& options, const Tensor& q_gradient,
              const Tensor& k_gradient, const Tensor& v_gradient) {
  const Shape shape(q, options);
  const kernels::AttentionKernels<T>& kernel = kernels::attention_kernels<T>();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.d)));
  const std::int64_t tasks = shape.batch * shape.heads;
  const Tensor workspace = torch::empty({threads_for(tasks), 2 * shape.scores + shape.rows}, q.options());
  for_each_task(tasks, [&](std::int64_t thread, std::int64_t task) {
    const SerialBlas serial;
    const std::int64_t sample = task / shape.heads, head = task % shape.heads;
    const std::int64_t length = length_of(options, sample, shape.positions);
    const auto of = [&](const Tensor& x) { return head_of<T>(x, sample, head, shape.d); };
    const auto queries = of(q), keys = of(k), values = of(v), out = of(result), out_gradient = of(gradient);
    const auto into = [&](const Tensor& x) { return writable_head_of<T>(x, sample, head, shape.d); };
    const auto dq = into(q_gradient), dk = into(k_gradient), dv = into(v_gradient);
    for (const auto& rows : {dq, dk, dv}) zero_rows(rows, length, shape.positions, shape.d);
    const T* sums = log_sums.const_data_ptr<T>() + task * shape.positions;
    T* scores = workspace.mutable_data_ptr<T>() + thread * workspace.size(1);
    T* gradients = scores + shape.scores;
    T* dots = gradients + shape.scores;

    // Last block first: it sees every key, so that it overwrites what the others add to.
    T beta = 0;
    for (std::int64_t first = (length - 1) / shape.rows * shape.rows; length > 0 && first >= 0;
         first -= shape.rows, beta = 1) {
      const std::int64_t last = std::min(first + shape.rows, length);
      const kernels::AttentionBlock block = score_block(options, sample, head, first, last, length);
      kernel.row_dots(block.rows, shape.d, out.row(first), out.stride, out_gradient.row(first),
                      out_gradient.stride, dots);
      gemm(block.rows, block.width, shape.d, scale, {queries.row(first), queries.stride},
           {keys.data, keys.stride, true}, T(0), scores, block.stride);
      gemm(block.rows, block.width, shape.d, T(1), {out_gradient.row(first), out_gradient.stride},
           {values.data, values.stride, true}, T(0), gradients, block.stride);
      kernel.softmax_dropout_backward(block, scores, gradients, sums + first, dots);
      gemm(block.width, shape.d, block.rows, T(1), {scores, block.stride, true},
           {out_gradient.row(first), out_gradient.stride}, beta, dv.data, dv.stride);
      gemm(block.rows, shape.d, block.width, scale, {gradients, block.stride}, {keys.data, keys.stride}, T(0),
           dq.row(first), dq.stride);
      gemm(block.width, shape.d, block.rows, scale, {gradients, block.stride, true},
           {queries.row(first), queries.stride}, beta, dk.data, dk.stride);
    }
  });
}

AttentionOptions contiguous(AttentionOptions options) {
  if (options.lengths) options.lengths = options.lengths->contiguous();
  if (options.sample_ids.defined()) options.sample_ids = options.sample_ids.contiguous();
  return options;
}

}  // namespace

std::tuple<Tensor, Tensor> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options) {
  const Tensor result = torch::empty(q.sizes(), q.options());
  const Tensor log_sums = torch::empty({q.size(0), options.heads, q.size(1)}, q.options());
  if (result.numel() == 0) return {result, log_sums};
  const Tensor queries = with_adjacent_features(q), keys = with_adjacent_features(k),
               values = with_adjacent_features(v);
  const auto run = q.scalar_type() == torch::kFloat32 ? forward<float> : forward<double>;
  run(queries, keys, values, contiguous(options), result, log_sums);
  return {result, log_sums};
}

std::tuple<Tensor, Tensor, Tensor> fused_attention_backward(const Tensor& gradient, const Tensor& q,
                                                            const Tensor& k, const Tensor& v,
                                                            const Tensor& result, const Tensor& log_sums,
                                                            const AttentionOptions& options) {
  const Tensor dq = torch::empty(q.sizes(), q.options()), dk = torch::empty_like(dq),
               dv = torch::empty_like(dq);
  if (dq.numel() == 0) return {dq, dk, dv};
  const auto run = q.scalar_type() == torch::kFloat32 ? backward<float> : backward<double>;
  run(with_adjacent_features(gradient), with_adjacent_features(q), with_adjacent_features(k),
      with_adjacent_features(v), result, log_sums, contiguous(options), dq, dk, dv);
  return {dq, dk, dv};
}

}  // namespace comera::ops
