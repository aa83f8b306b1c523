#include "attention/composed.h"
#include "attention/fused.h"

#include <comera/base/error.h>
#include <comera/kernels/dropout.h>
#include <comera/ops/attention.h>
#include <comera/ops/implementation.h>

#include <torch/library.h>

#include <limits>
#include <tuple>

namespace comera::ops {
namespace {

using torch::Tensor;
using Tensors2 = std::tuple<Tensor, Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;
using OptionalTensor = std::optional<Tensor>;

constexpr auto kForwardSchema =
    "attention(Tensor q, Tensor k, Tensor v, int heads, Tensor? lengths, bool causal, Tensor? sample_ids, "
    "float p, "
    "int key) -> (Tensor, Tensor)";
constexpr auto kBackwardSchema =
    "attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor result, Tensor log_sums, int "
    "heads, "
    "Tensor? lengths, bool causal, Tensor? sample_ids, float p, int key) -> (Tensor, Tensor, Tensor)";

using Forward = Tensors2(const Tensor&, const Tensor&, const Tensor&, std::int64_t, const OptionalTensor&,
                         bool, const OptionalTensor&, double, std::int64_t);
using Backward = Tensors3(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, std::int64_t, const OptionalTensor&, bool, const OptionalTensor&,
                          double, std::int64_t);

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                     const OptionalTensor& lengths, const OptionalTensor& sample_ids, double p) {
  check(q.dim() == 3 && q.is_floating_point(),
        "[attention] expected floating q, k, v of [batch, positions, heads * d], got {} dimensions of {}",
        q.dim(), c10::toString(q.scalar_type()));
  for (const Tensor& other : {k, v})
    check(
        other.sizes() == q.sizes() && other.scalar_type() == q.scalar_type() && other.device() == q.device(),
        "[attention] q, k and v differ in shape, dtype or device");
  check(heads >= 1 && q.size(2) % heads == 0, "[attention] {} features do not divide into {} heads",
        q.size(2), heads);
  check(p >= 0 && p < 1, "[attention] expected p in [0, 1), got {}", p);
  const auto check_per_sample = [&](const Tensor& x, const char* name) {
    check(x.scalar_type() == torch::kInt64 && x.dim() == 1 && x.size(0) == q.size(0) &&
              x.device() == q.device(),
          "[attention] expected {} to be int64 on {}, one for each of the {} samples", name, q.device().str(),
          q.size(0));
  };
  if (lengths) check_per_sample(*lengths, "lengths");
  check(p == 0 || sample_ids, "[attention] dropout needs sample_ids");
  if (p > 0) check_per_sample(*sample_ids, "sample_ids");
  // Products take 32-bit sizes, and query * heads + head is a 32-bit word of the mask's counter.
  check(q.size(1) * heads <= std::numeric_limits<std::int32_t>::max() &&
            q.size(2) <= std::numeric_limits<std::int32_t>::max(),
        "[attention] {} positions x {} heads do not fit 32 bits", q.size(1), heads);
}

/// Lengths are read on the host only where they live there.
void check_lengths(const OptionalTensor& lengths, std::int64_t positions) {
  if (!lengths || !lengths->is_cpu()) return;
  const auto values = lengths->accessor<std::int64_t, 1>();
  for (std::int64_t b = 0; b < values.size(0); ++b)
    check(values[b] >= 0 && values[b] <= positions, "[attention] lengths[{}] is {}, outside 0 .. {}", b,
          values[b], positions);
}

bool is_fused(const Tensor& q) {
  return !use_reference() && q.is_cpu() &&
         (q.scalar_type() == torch::kFloat32 || q.scalar_type() == torch::kFloat64);
}

Tensors2 composed(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                  const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids, double p,
                  std::int64_t key) {
  const DropoutMask mask = {p, static_cast<std::uint64_t>(key), sample_ids.value_or(Tensor())};
  Tensor keep;
  if (p > 0)
    keep = (use_reference() ? reference::dropout_keep : dropout_keep)(mask, q.size(1) * heads, q.size(1));
  if (p > 0) keep = keep.to(q.device(), q.scalar_type());
  return composed_attention(q, k, v, heads, lengths, causal, keep, kernels::keep_rule(p, mask.key).scale());
}

AttentionOptions options_of(std::int64_t heads, const OptionalTensor& lengths, bool causal,
                            const OptionalTensor& sample_ids, double p, std::int64_t key) {
  return {heads, lengths, causal, kernels::keep_rule(p, static_cast<std::uint64_t>(key)),
          sample_ids.value_or(Tensor())};
}

Tensors2 attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                           const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                           double p, std::int64_t key) {
  check_arguments(q, k, v, heads, lengths, sample_ids, p);
  check_lengths(lengths, q.size(1));
  if (!is_fused(q)) return composed(q, k, v, heads, lengths, causal, sample_ids, p, key);
  return fused_attention(q, k, v, options_of(heads, lengths, causal, sample_ids, p, key));
}

Tensors2 attention_meta(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                        const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                        double p, std::int64_t key) {
  return {torch::empty_symint(q.sym_sizes(), q.options()),
          torch::empty_symint({q.sym_size(0), heads, q.sym_size(1)}, q.options())};
}

Tensors3 attention_backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& result, const Tensor& log_sums, std::int64_t heads,
                            const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                            double p, std::int64_t key) {
  return fused_attention_backward(gradient, q, k, v, result, log_sums,
                                  options_of(heads, lengths, causal, sample_ids, p, key));
}

Tensors3 attention_backward_meta(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& result, const Tensor& log_sums, std::int64_t heads,
                                 const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                                 double p, std::int64_t key) {
  const auto like = [](const Tensor& x) { return torch::empty_symint(x.sym_sizes(), x.options()); };
  return {like(q), like(k), like(v)};
}

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

const auto& forward_operator() {
  static const auto op = find_operator<Forward>("comera::attention");
  return op;
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& q,
                                                const Tensor& k, const Tensor& v, std::int64_t heads,
                                                const OptionalTensor& lengths, bool causal,
                                                const OptionalTensor& sample_ids, double p,
                                                std::int64_t key) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [result, log_sums] =
        forward_operator().call(q, k, v, heads, lengths, causal, sample_ids, p, key);
    context->mark_non_differentiable({log_sums});
    context->save_for_backward(
        {q, k, v, result, log_sums, lengths.value_or(Tensor()), sample_ids.value_or(Tensor())});
    context->saved_data["heads"] = heads;
    context->saved_data["causal"] = causal;
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    return {result, log_sums};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    check(!torch::GradMode::is_enabled(),
          "[attention] the fused operator has no second derivative; set COMERA_IMPL=reference to get one");
    static const auto op = find_operator<Backward>("comera::attention_backward");
    const auto saved = context->get_saved_variables();
    const auto optional = [](const Tensor& x) { return x.defined() ? OptionalTensor(x) : OptionalTensor(); };
    const auto [dq, dk, dv] = op.call(
        gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], context->saved_data["heads"].toInt(),
        optional(saved[5]), context->saved_data["causal"].toBool(), optional(saved[6]),
        context->saved_data["p"].toDouble(), context->saved_data["key"].toInt());
    return {dq, dk, dv, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensors2 attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                            const OptionalTensor& lengths, bool causal, const OptionalTensor& sample_ids,
                            double p, std::int64_t key) {
  if (!is_fused(q) && !q.is_meta()) {
    check_arguments(q, k, v, heads, lengths, sample_ids, p);
    check_lengths(lengths, q.size(1));
    return composed(q, k, v, heads, lengths, causal, sample_ids, p, key);
  }
  const auto outputs = AttentionFunction::apply(q, k, v, heads, lengths, causal, sample_ids, p, key);
  return {outputs[0], outputs[1]};
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t heads,
                 const OptionalTensor& lengths, bool causal, const DropoutMask& mask) {
  const OptionalTensor sample_ids = mask.p == 0 ? OptionalTensor() : OptionalTensor(mask.sample_ids);
  return std::get<0>(forward_operator().call(q, k, v, heads, lengths, causal, sample_ids, mask.p,
                                             static_cast<std::int64_t>(mask.key)));
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  m.def(kForwardSchema);
  m.def(kBackwardSchema);
}

TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) { m.impl("attention", attention_forward); }

TORCH_LIBRARY_IMPL(comera, CPU, m) { m.impl("attention_backward", attention_backward); }

TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
}

TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("attention", attention_autograd); }

}  // namespace comera::ops
