#include "attention/fused.h"

#include "blas.h"
#include "tasks.h"

#include <comera/kernels/attention.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace comera::ops {
namespace {

using torch::Tensor;

/// Scores that a thread holds at once: enough rows that the products run well, few enough to stay in cache.
constexpr std::int64_t kBlockScores = 128 * 1024, kMostRows = 128, kFewestRows = 16;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Sizes {
  std::int64_t batch, positions, heads, d;
  std::int64_t rows;    ///< queries a block
  std::int64_t blocks;  ///< blocks a (sample, head)
  std::int64_t scores;  ///< entries for the scores of any block

  Sizes(const Tensor& q, std::int64_t heads)
      : batch(q.size(0)), positions(q.size(1)), heads(heads), d(q.size(2) / heads) {
    rows = std::clamp(kBlockScores / positions / kFewestRows * kFewestRows, kFewestRows, kMostRows);
    blocks = (positions + rows - 1) / rows;
    scores = rows * round_up(positions, kernels::kMaskLanes);
  }
};

/// One head of one sample of a [batch, positions, heads * d] tensor: rows of d entries, `stride` apart.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;

  HeadRows(T* all, const Tensor& x, std::int64_t sample, std::int64_t head, std::int64_t d)
      // A lone position may have any stride, which the BLAS would refuse.
      : data(all + sample * x.stride(0) + head * d), stride(x.size(1) == 1 ? x.size(2) : x.stride(1)) {}

  T* row(std::int64_t position) const { return data + position * stride; }
  MatrixView<std::remove_const_t<T>> matrix(std::int64_t first = 0) const { return {row(first), stride}; }
  MatrixView<std::remove_const_t<T>> transposed() const { return {data, stride, true}; }
  void zero(std::int64_t first, std::int64_t last, std::int64_t d) const {
    for (std::int64_t t = first; t < last; ++t) std::fill_n(row(t), d, T(0));
  }
};

/// Features side by side and rows apart, as the products need them; slices of a wider tensor are taken as
/// they are.
Tensor as_rows(const Tensor& x) { return x.stride(2) == 1 && x.stride(1) >= x.size(2) ? x : x.contiguous(); }

/// Options whose tensors can be read one entry after the other.
AttentionOptions contiguous(AttentionOptions options) {
  if (options.lengths) options.lengths = options.lengths->contiguous();
  if (options.mask.p > 0) options.mask.sample_ids = options.mask.sample_ids.contiguous();
  return options;
}

std::int64_t length_of(const AttentionOptions& options, std::int64_t sample, std::int64_t positions) {
  return options.lengths ? options.lengths->const_data_ptr<std::int64_t>()[sample] : positions;
}

/// The scores of the queries [first, last) of one (sample, head).
kernels::AttentionBlock score_block(const AttentionOptions& options, std::int64_t sample, std::int64_t head,
                                    std::int64_t length, std::int64_t first, std::int64_t last) {
  kernels::AttentionBlock block;
  block.rows = last - first;
  block.width = options.causal ? last : length;
  block.stride = round_up(block.width, kernels::kMaskLanes);
  block.first_query = first;
  block.causal = options.causal;
  block.heads = options.heads;
  block.head = head;
  block.rule = kernels::keep_rule(options.mask.p, options.mask.key);
  if (options.mask.p > 0)
    block.sample = static_cast<std::uint64_t>(options.mask.sample_ids.const_data_ptr<std::int64_t>()[sample]);
  return block;
}

/// task(i, workspace of `entries`) for every i. A thread takes the next task when it is free, so that samples
/// of unequal length leave none waiting; tasks own what they write, so it does not matter who runs one.
template <class T, class Task>
void run_with_workspace(std::int64_t count, std::int64_t entries, const Tensor& like, const Task& task) {
  std::atomic<std::int64_t> next = 0;
  run_ranges(std::min<std::int64_t>(count, at::get_num_threads()), true, [&](std::int64_t, std::int64_t) {
    const Tensor workspace = at::empty({entries}, like.options());
    for (std::int64_t i = next++; i < count; i = next++) task(i, workspace.mutable_data_ptr<T>());
  });
}

template <class T>
void forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
             const Tensor& result, const Tensor& log_sums) {
  const Sizes sizes(q, options.heads);
  const kernels::AttentionKernels<T>& kernel = kernels::attention_kernels<T>();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(sizes.d)));
  const std::int64_t tasks = sizes.batch * sizes.heads * sizes.blocks;
  run_with_workspace<T>(tasks, sizes.scores + sizes.rows, q, [&](std::int64_t task, T* workspace) {
    const std::int64_t head = task / sizes.blocks % sizes.heads, sample = task / sizes.blocks / sizes.heads;
    const std::int64_t length = length_of(options, sample, sizes.positions);
    const std::int64_t begin = task % sizes.blocks * sizes.rows,
                       end = std::min(begin + sizes.rows, sizes.positions);
    const std::int64_t first = std::min(begin, length), last = std::min(end, length);
    const HeadRows out(result.mutable_data_ptr<T>(), result, sample, head, sizes.d);
    T* sums = log_sums.mutable_data_ptr<T>() + (sample * sizes.heads + head) * sizes.positions;
    out.zero(std::max(begin, last), end, sizes.d);
    std::fill(sums + std::max(begin, last), sums + end, T(0));
    if (first == last) return;

    const auto of = [&](const Tensor& x) {
      return HeadRows(x.const_data_ptr<T>(), x, sample, head, sizes.d);
    };
    const auto block = score_block(options, sample, head, length, first, last);
    T *scores = workspace, *factors = workspace + sizes.scores;
    gemm(block.rows, block.width, sizes.d, scale, of(q).matrix(first), of(k).transposed(), T(0), scores,
         block.stride);
    kernel.softmax_dropout(block, scores, sums + first, factors);
    gemm(block.rows, sizes.d, block.width, T(1), {scores, block.stride}, of(v).matrix(), T(0), out.row(first),
         out.stride);
    kernel.scale_rows(block.rows, sizes.d, factors, out.row(first), out.stride);
  });
}

template <class T>
void backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& result,
              const Tensor& log_sums, const AttentionOptions& options, const Tensor& q_gradient,
              const Tensor& k_gradient, const Tensor& v_gradient) {
  const Sizes sizes(q, options.heads);
  const kernels::AttentionKernels<T>& kernel = kernels::attention_kernels<T>();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(sizes.d)));
  const std::int64_t tasks = sizes.batch * sizes.heads, entries = 2 * sizes.scores + sizes.rows;
  run_with_workspace<T>(tasks, entries, q, [&](std::int64_t task, T* workspace) {
    const std::int64_t head = task % sizes.heads, sample = task / sizes.heads;
    const std::int64_t length = length_of(options, sample, sizes.positions);
    const T* sums = log_sums.const_data_ptr<T>() + task * sizes.positions;
    const auto of = [&](const Tensor& x) {
      return HeadRows(x.const_data_ptr<T>(), x, sample, head, sizes.d);
    };
    const auto into = [&](const Tensor& x) {
      return HeadRows(x.mutable_data_ptr<T>(), x, sample, head, sizes.d);
    };
    const auto queries = of(q), keys = of(k), values = of(v), out = of(result), d_out = of(gradient);
    const auto dq = into(q_gradient), dk = into(k_gradient), dv = into(v_gradient);
    for (const auto& rows : {dq, dk, dv}) rows.zero(length, sizes.positions, sizes.d);

    T *scores = workspace, *d_scores = scores + sizes.scores, *dots = d_scores + sizes.scores;
    // The last block goes first: it sees every key, so it overwrites what the others then add to.
    T beta = 0;
    for (std::int64_t last = length, first; last > 0; last = first, beta = 1) {
      first = (last - 1) / sizes.rows * sizes.rows;
      const auto block = score_block(options, sample, head, length, first, last);
      const MatrixView<T> p_transposed{scores, block.stride, true};
      const MatrixView<T> ds{d_scores, block.stride}, ds_transposed{d_scores, block.stride, true};
      kernel.row_dots(block.rows, sizes.d, out.row(first), out.stride, d_out.row(first), d_out.stride, dots);
      gemm(block.rows, block.width, sizes.d, scale, queries.matrix(first), keys.transposed(), T(0), scores,
           block.stride);
      gemm(block.rows, block.width, sizes.d, T(1), d_out.matrix(first), values.transposed(), T(0), d_scores,
           block.stride);
      kernel.softmax_dropout_backward(block, scores, d_scores, sums + first, dots);
      gemm(block.width, sizes.d, block.rows, T(1), p_transposed, d_out.matrix(first), beta, dv.data,
           dv.stride);
      gemm(block.width, sizes.d, block.rows, scale, ds_transposed, queries.matrix(first), beta, dk.data,
           dk.stride);
      gemm(block.rows, sizes.d, block.width, scale, ds, keys.matrix(), T(0), dq.row(first), dq.stride);
    }
  });
}

}  // namespace

std::tuple<Tensor, Tensor> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                           const AttentionOptions& options) {
  const Tensor result = at::empty(q.sizes(), q.options());
  const Tensor log_sums = at::empty({q.size(0), options.heads, q.size(1)}, q.options());
  if (result.numel() == 0) return {result, log_sums};
  const auto run = q.scalar_type() == torch::kFloat32 ? forward<float> : forward<double>;
  run(as_rows(q), as_rows(k), as_rows(v), contiguous(options), result, log_sums);
  return {result, log_sums};
}

std::tuple<Tensor, Tensor, Tensor> fused_attention_backward(const Tensor& gradient, const Tensor& q,
                                                            const Tensor& k, const Tensor& v,
                                                            const Tensor& result, const Tensor& log_sums,
                                                            const AttentionOptions& options) {
  const auto new_like_q = [&] { return at::empty(q.sizes(), q.options()); };
  const Tensor dq = new_like_q(), dk = new_like_q(), dv = new_like_q();
  if (dq.numel() == 0) return {dq, dk, dv};
  const auto run = q.scalar_type() == torch::kFloat32 ? backward<float> : backward<double>;
  run(as_rows(gradient), as_rows(q), as_rows(k), as_rows(v), result, log_sums, contiguous(options), dq, dk,
      dv);
  return {dq, dk, dv};
}

}  // namespace comera::ops
