#include "attention/composed.h"
#include "attention/fused.h"
#include "autograd.h"

#include <comera/base/error.h>
#include <comera/kernels/dropout.h>
#include <comera/ops/attention.h>
#include <comera/ops/implementation.h>

#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/library.h>

#include <limits>
#include <tuple>

namespace comera::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

constexpr const char* kSchema =
    "attention(Tensor q, Tensor k, Tensor v, int heads, Tensor? lengths, bool causal, Tensor? sample_ids, "
    "float p, "
    "int key) -> Tensor";
constexpr const char* kForwardSchema =
    "attention_forward(Tensor q, Tensor k, Tensor v, int heads, Tensor? lengths, bool causal, Tensor? "
    "sample_ids, "
    "float p, int key) -> (Tensor result, Tensor log_sums)";
constexpr const char* kBackwardSchema =
    "attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor result, Tensor log_sums, int "
    "heads, "
    "Tensor? lengths, bool causal, Tensor? sample_ids, float p, int key) -> (Tensor dq, Tensor dk, Tensor "
    "dv)";

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                     const OptionalTensor& lengths, const OptionalTensor& sample_ids, double p) {
  check(q.dim() == 3 && q.is_floating_point(),
        "[attention] expected floating q, k, v of [batch, positions, heads * d], got {} [{}]",
        c10::toString(q.scalar_type()), fmt::join(q.sizes(), ", "));
  for (const Tensor& other : {k, v})
    check(
        other.sizes() == q.sizes() && other.scalar_type() == q.scalar_type() && other.device() == q.device(),
        "[attention] q, k and v must have one shape, type and device, got {} [{}] and {} [{}]",
        c10::toString(q.scalar_type()), fmt::join(q.sizes(), ", "), c10::toString(other.scalar_type()),
        fmt::join(other.sizes(), ", "));
  check(heads >= 1 && q.size(2) % heads == 0, "[attention] {} features do not divide into {} heads",
        q.size(2), heads);
  check(p >= 0 && p < 1, "[attention] expected p in [0, 1), got {}", p);
  check(p == 0 || sample_ids, "[attention] dropout needs sample_ids");
  const auto check_per_sample = [&](const Tensor& x, const char* name) {
    check(x.scalar_type() == torch::kInt64 && x.dim() == 1 && x.size(0) == q.size(0) &&
              x.device() == q.device(),
          "[attention] expected {} as int64 [{}] on {}, got {} [{}] on {}", name, q.size(0), q.device().str(),
          c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "), x.device().str());
  };
  if (lengths) check_per_sample(*lengths, "lengths");
  if (p > 0) check_per_sample(*sample_ids, "sample_ids");
  // The products take 32-bit sizes, and query * heads + head is a 32-bit word of the mask's counter.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check(q.size(2) <= kMost && q.size(1) <= kMost / heads,
        "[attention] {} positions of {} heads do not fit 32 bits", q.size(1), heads);
}

/// Only on the host: elsewhere it would have to wait for them. A tensor that is being traced has no values
/// yet.
void check_lengths(const Tensor& q, const OptionalTensor& lengths) {
  if (!lengths || !lengths->is_cpu() || at::isTensorSubclassLike(*lengths)) return;
  const auto values = lengths->accessor<std::int64_t, 1>();
  for (std::int64_t b = 0; b < values.size(0); ++b)
    check(values[b] >= 0 && values[b] <= q.size(1), "[attention] lengths[{}] is {}, outside 0 .. {}", b,
          values[b], q.size(1));
}

AttentionOptions options_of(std::int64_t heads, const OptionalTensor& lengths, bool causal,
                            const OptionalTensor& sample_ids, double p, std::int64_t key) {
  return {heads, lengths, causal, {p, static_cast<std::uint64_t>(key), sample_ids.value_or(Tensor())}};
}

/// Whether the block-by-block implementation is there for q.
bool has_blocks(const Tensor& q) {
  return (q.is_cpu() || q.is_meta()) &&
         (q.scalar_type() == torch::kFloat32 || q.scalar_type() == torch::kFloat64);
}

std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                                   const OptionalTensor& lengths, bool causal,
                                   const OptionalTensor& sample_ids, double p, std::int64_t key) {
  check_lengths(q, lengths);
  return fused_attention(q, k, v, options_of(heads, lengths, causal, sample_ids, p, key));
}

std::tuple<Tensor, Tensor> forward_meta(const Tensor& q, const Tensor&, const Tensor&, std::int64_t heads,
                                        const OptionalTensor&, bool, const OptionalTensor&, double,
                                        std::int64_t) {
  return {torch::empty_symint(q.sym_sizes(), q.options()),
          torch::empty_symint({q.sym_size(0), heads, q.sym_size(1)}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                            const Tensor& v, const Tensor& result, const Tensor& log_sums,
                                            std::int64_t heads, const OptionalTensor& lengths, bool causal,
                                            const OptionalTensor& sample_ids, double p, std::int64_t key) {
  check_lengths(q, lengths);
  return fused_attention_backward(gradient, q, k, v, result, log_sums,
                                  options_of(heads, lengths, causal, sample_ids, p, key));
}

std::tuple<Tensor, Tensor, Tensor> backward_meta(const Tensor&, const Tensor& q, const Tensor& k,
                                                 const Tensor& v, const Tensor&, const Tensor&, std::int64_t,
                                                 const OptionalTensor&, bool, const OptionalTensor&, double,
                                                 std::int64_t) {
  const auto like = [](const Tensor& x) { return torch::empty_symint(x.sym_sizes(), x.options()); };
  return {like(q), like(k), like(v)};
}

std::tuple<Tensor, Tensor> call_forward(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                                        const OptionalTensor& lengths, bool causal,
                                        const OptionalTensor& sample_ids, double p, std::int64_t key) {
  static const auto op = operator_handle<decltype(forward)>("comera::attention_forward");
  return op.call(q, k, v, heads, lengths, causal, sample_ids, p, key);
}

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids, double p,
                std::int64_t key) {
  check_lengths(q, lengths);
  return composed_attention(q, k, v, options_of(heads, lengths, causal, sample_ids, p, key));
}

class Attention : public torch::autograd::Function<Attention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        std::int64_t heads, const OptionalTensor& lengths, bool causal,
                        const OptionalTensor& sample_ids, double p, std::int64_t key) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [result, log_sums] = call_forward(q, k, v, heads, lengths, causal, sample_ids, p, key);
    context->save_for_backward(
        {q, k, v, result, log_sums, lengths.value_or(Tensor()), sample_ids.value_or(Tensor())});
    context->saved_data["heads"] = heads;
    context->saved_data["causal"] = causal;
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("attention");
    static const auto op = operator_handle<decltype(ops::backward)>("comera::attention_backward");
    const auto saved = context->get_saved_variables();
    const auto optional = [](const Tensor& x) { return x.defined() ? OptionalTensor(x) : std::nullopt; };
    auto& data = context->saved_data;
    const auto [dq, dk, dv] = op.call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4],
                                      data["heads"].toInt(), optional(saved[5]), data["causal"].toBool(),
                                      optional(saved[6]), data["p"].toDouble(), data["key"].toInt());
    return {dq, dk, dv, {}, {}, {}, {}, {}, {}};
  }
};

Tensor with_autograd(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                     const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids, double p,
                     std::int64_t key) {
  check_arguments(q, k, v, heads, lengths, sample_ids, p);
  if (use_reference() || !has_blocks(q)) return composed(q, k, v, heads, lengths, causal, sample_ids, p, key);
  return Attention::apply(q, k, v, heads, lengths, causal, sample_ids, p, key);
}

Tensor without_autograd(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                        const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                        double p, std::int64_t key) {
  check_arguments(q, k, v, heads, lengths, sample_ids, p);
  if (use_reference() || !has_blocks(q)) return composed(q, k, v, heads, lengths, causal, sample_ids, p, key);
  return std::get<0>(call_forward(q, k, v, heads, lengths, causal, sample_ids, p, key));
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                 const OptionalTensor& lengths, bool causal, const DropoutMask& mask) {
  static const auto op = operator_handle<decltype(without_autograd)>("comera::attention");
  const OptionalTensor sample_ids =
      mask.sample_ids.defined() ? OptionalTensor(mask.sample_ids) : std::nullopt;
  return op.call(q, k, v, heads, lengths, causal, sample_ids, mask.p, static_cast<std::int64_t>(mask.key));
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kForwardSchema, kBackwardSchema})
    m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("attention", with_autograd); }
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) { m.impl("attention", without_autograd); }
TORCH_LIBRARY_IMPL(comera, CPU, m) {
  m.impl("attention_forward", forward);
  m.impl("attention_backward", backward);
}
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("attention_forward", forward_meta);
  m.impl("attention_backward", backward_meta);
}

}  // namespace comera::ops
