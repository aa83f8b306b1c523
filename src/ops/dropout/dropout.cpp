#include "autograd.h"

#include <comera/base/error.h>
#include <comera/kernels/dropout.h>
#include <comera/ops/dropout.h>
#include <comera/ops/implementation.h>
#include <comera/ops/parallel.h>

#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace comera::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;

constexpr const char* kSchema = "dropout(Tensor x, Tensor sample_ids, float p, int key) -> Tensor";
constexpr const char* kAddSchema =
    "dropout_add(Tensor x, Tensor residual, Tensor sample_ids, float p, int key) -> Tensor";

void check_arguments(const Tensor& x, const OptionalTensor& residual, const DropoutMask& mask) {
  const Tensor& ids = mask.sample_ids;
  check(x.dim() == 3 && x.is_floating_point(),
        "[dropout] expected a floating x of [batch, positions, features], got {} [{}]",
        c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "));
  check(mask.p >= 0 && mask.p < 1, "[dropout] expected p in [0, 1), got {}", mask.p);
  check(ids.defined(), "[dropout] sample_ids are missing");
  check(ids.scalar_type() == torch::kInt64 && ids.dim() == 1 && ids.size(0) == x.size(0) &&
            ids.device() == x.device(),
        "[dropout] expected sample_ids as int64 [{}] on {}, got {} [{}] on {}", x.size(0), x.device().str(),
        c10::toString(ids.scalar_type()), fmt::join(ids.sizes(), ", "), ids.device().str());
  // Positions and groups of features are 32-bit words of the mask's counter.
  check(x.size(1) <= std::int64_t{1} << 32 && x.size(2) <= std::int64_t{1} << 34,
        "[dropout] the mask numbers at most 2^32 positions and 2^34 features, got {} and {}", x.size(1),
        x.size(2));
  check(!residual || (residual->sizes() == x.sizes() && residual->scalar_type() == x.scalar_type() &&
                      residual->device() == x.device()),
        "[dropout] x and residual must have one shape, type and device, got {} [{}] and {} [{}]",
        c10::toString(x.scalar_type()), fmt::join(x.sizes(), ", "),
        c10::toString(residual ? residual->scalar_type() : x.scalar_type()),
        fmt::join(residual ? residual->sizes() : x.sizes(), ", "));
}

template <class T>
void run_kernel(const Tensor& x, const OptionalTensor& residual, const DropoutMask& mask, const Tensor& y) {
  const Tensor ids = mask.sample_ids.contiguous();
  const kernels::DropoutRows<T> rows = {.x = x.const_data_ptr<T>(),
                                        .residual = residual ? residual->const_data_ptr<T>() : nullptr,
                                        .y = y.mutable_data_ptr<T>(),
                                        .sample_ids = ids.const_data_ptr<std::int64_t>(),
                                        .positions = x.size(1),
                                        .features = x.size(2),
                                        .rule = kernels::keep_rule(mask.p, mask.key)};
  constexpr std::int64_t kFewestEntries = 16384;  // worth a thread
  parallel_ranges(x.size(0) * x.size(1), std::max<std::int64_t>(1, kFewestEntries / x.size(2)),
                  [&](std::int64_t first, std::int64_t last) { kernels::dropout(rows, first, last); });
}

Tensor run(const Tensor& x, const OptionalTensor& residual, const DropoutMask& mask) {
  check_arguments(x, residual, mask);
  const bool is_float = x.scalar_type() == torch::kFloat32, is_double = x.scalar_type() == torch::kFloat64;
  if (!x.is_cpu() || !(is_float || is_double) || use_reference()) {
    const Tensor kept =
        torch::where(dropout_keep(mask, x.size(1), x.size(2)),
                     x * kernels::keep_rule(mask.p, mask.key).scale(), torch::zeros({}, x.options()));
    return residual ? *residual + kept : kept;
  }
  const Tensor y = at::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  const auto rows = residual ? OptionalTensor(residual->contiguous()) : std::nullopt;
  (is_float ? run_kernel<float> : run_kernel<double>)(x.contiguous(), rows, mask, y);
  return y;
}

Tensor dropout_forward(const Tensor& x, const Tensor& sample_ids, double p, std::int64_t key) {
  return run(x, std::nullopt, {p, static_cast<std::uint64_t>(key), sample_ids});
}

Tensor dropout_add_forward(const Tensor& x, const Tensor& residual, const Tensor& sample_ids, double p,
                           std::int64_t key) {
  return run(x, residual, {p, static_cast<std::uint64_t>(key), sample_ids});
}

Tensor dropout_meta(const Tensor& x, const Tensor&, double, std::int64_t) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

Tensor dropout_add_meta(const Tensor& x, const Tensor&, const Tensor&, double, std::int64_t) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

Tensor call_dropout(const Tensor& x, const OptionalTensor& residual, const Tensor& sample_ids, double p,
                    std::int64_t key) {
  static const auto plain = operator_handle<decltype(dropout_forward)>("comera::dropout");
  static const auto add = operator_handle<decltype(dropout_add_forward)>("comera::dropout_add");
  return residual ? add.call(x, *residual, sample_ids, p, key) : plain.call(x, sample_ids, p, key);
}

/// Dropout is linear: its gradient is the same dropout of the gradient.
class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const OptionalTensor& residual,
                        const Tensor& sample_ids, double p, std::int64_t key) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({sample_ids});
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    context->saved_data["has_residual"] = residual.has_value();
    return call_dropout(x, residual, sample_ids, p, key);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto& data = context->saved_data;
    Tensor dx, d_residual;
    if (context->needs_input_grad(0))
      dx = call_dropout(gradients[0], std::nullopt, context->get_saved_variables()[0], data["p"].toDouble(),
                        data["key"].toInt());
    if (data["has_residual"].toBool()) d_residual = gradients[0];
    return {dx, d_residual, {}, {}, {}};
  }
};

Tensor dropout_autograd(const Tensor& x, const Tensor& sample_ids, double p, std::int64_t key) {
  if (use_reference()) return reference::dropout(x, {p, static_cast<std::uint64_t>(key), sample_ids});
  return Dropout::apply(x, std::nullopt, sample_ids, p, key);
}

Tensor dropout_add_autograd(const Tensor& x, const Tensor& residual, const Tensor& sample_ids, double p,
                            std::int64_t key) {
  if (use_reference())
    return reference::dropout_add(x, residual, {p, static_cast<std::uint64_t>(key), sample_ids});
  return Dropout::apply(x, OptionalTensor(residual), sample_ids, p, key);
}

}  // namespace

Tensor dropout(const Tensor& x, const DropoutMask& mask) {
  if (mask.p == 0) return x;
  return call_dropout(x, std::nullopt, mask.sample_ids, mask.p, static_cast<std::int64_t>(mask.key));
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask) {
  if (mask.p == 0) return residual + x;
  return call_dropout(x, residual, mask.sample_ids, mask.p, static_cast<std::int64_t>(mask.key));
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kAddSchema}) m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) {
  m.impl("dropout", dropout_forward);
  m.impl("dropout_add", dropout_add_forward);
}
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("dropout", dropout_meta);
  m.impl("dropout_add", dropout_add_meta);
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) {
  m.impl("dropout", dropout_autograd);
  m.impl("dropout_add", dropout_add_autograd);
}

}  // namespace comera::ops
