#include <comera/base/error.h>
#include <comera/kernels/dropout.h>
#include <comera/ops/dropout.h>
#include <comera/ops/implementation.h>

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cstring>

namespace comera::ops {
namespace {

using torch::Tensor;

/// The key as torch operators carry it.
std::int64_t signed_key(std::uint64_t key) { return static_cast<std::int64_t>(key); }

DropoutMask mask_of(const Tensor& sample_ids, double p, std::int64_t key) {
  return {p, static_cast<std::uint64_t>(key), sample_ids};
}

void check_arguments(const char* name, const Tensor& x, const Tensor* residual, const DropoutMask& mask) {
  const Tensor& ids = mask.sample_ids;
  check(x.dim() == 3 && x.is_floating_point(),
        "[{}] expected a floating x of [batch, positions, features], got {} dimensions of {}", name, x.dim(),
        c10::toString(x.scalar_type()));
  check(mask.p >= 0 && mask.p < 1, "[{}] expected p in [0, 1), got {}", name, mask.p);
  check(ids.defined() && ids.scalar_type() == torch::kInt64 && ids.dim() == 1 && ids.size(0) == x.size(0),
        "[{}] expected one int64 sample id for each of the {} samples", name, x.size(0));
  check(ids.device() == x.device(), "[{}] x is on {}, sample_ids on {}", name, x.device().str(),
        ids.device().str());
  // Positions and groups of features are 32-bit words of the counter.
  check(x.size(1) <= std::int64_t{1} << 32 && x.size(2) <= std::int64_t{1} << 34,
        "[{}] the mask numbers at most 2^32 positions and 2^34 features, got {} x {}", name, x.size(1),
        x.size(2));
  if (residual)
    check(residual->sizes() == x.sizes() && residual->scalar_type() == x.scalar_type() &&
              residual->device() == x.device(),
          "[{}] x and residual differ in shape, dtype or device", name);
}

template <class T>
void run_kernel(const Tensor& x, const Tensor* residual, const Tensor& ids, const kernels::KeepRule& rule,
                const Tensor& y) {
  const kernels::DropoutRows<T> rows = {x.const_data_ptr<T>(),
                                        residual ? residual->const_data_ptr<T>() : nullptr,
                                        y.mutable_data_ptr<T>(),
                                        ids.const_data_ptr<std::int64_t>(),
                                        x.size(1),
                                        x.size(2),
                                        rule};
  const std::int64_t count = x.size(0) * x.size(1), grain = std::max<std::int64_t>(1, 16384 / x.size(2));
  at::parallel_for(0, count, grain,
                   [&](std::int64_t first, std::int64_t last) { kernels::dropout(rows, first, last); });
}

Tensor with_tensor_operations(const Tensor& x, const Tensor* residual, const DropoutMask& mask) {
  const Tensor keep = dropout_keep(mask, x.size(1), x.size(2));
  const double scale = kernels::keep_rule(mask.p, mask.key).scale();
  const Tensor y = torch::where(keep, x * scale, torch::zeros({}, x.options()));
  return residual ? *residual + y : y;
}

Tensor run(const char* name, const Tensor& x, const Tensor* residual, const DropoutMask& mask) {
  check_arguments(name, x, residual, mask);
  const bool has_kernel =
      x.is_cpu() && (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
  if (!has_kernel || use_reference()) return with_tensor_operations(x, residual, mask);
  const Tensor y = torch::empty(x.sizes(), x.options());
  if (y.numel() == 0) return y;
  const Tensor x_rows = x.contiguous(), ids = mask.sample_ids.contiguous();
  const Tensor residual_rows = residual ? residual->contiguous() : Tensor();
  const Tensor* base = residual ? &residual_rows : nullptr;
  const kernels::KeepRule rule = kernels::keep_rule(mask.p, mask.key);
  if (x.scalar_type() == torch::kFloat32)
    run_kernel<float>(x_rows, base, ids, rule, y);
  else
    run_kernel<double>(x_rows, base, ids, rule, y);
  return y;
}

Tensor dropout_forward(const Tensor& x, const Tensor& sample_ids, double p, std::int64_t key) {
  return run("dropout", x, nullptr, mask_of(sample_ids, p, key));
}

Tensor dropout_add_forward(const Tensor& x, const Tensor& residual, const Tensor& sample_ids, double p,
                           std::int64_t key) {
  return run("dropout_add", x, &residual, mask_of(sample_ids, p, key));
}

Tensor dropout_meta(const Tensor& x, const Tensor&, double, std::int64_t) {
  return torch::empty_symint(x.sym_sizes(), x.options());
}

Tensor dropout_add_meta(const Tensor& x, const Tensor&, const Tensor&, double, std::int64_t) {
  return torch::empty_symint(x.sym_sizes(), x.options());
}

Tensor call_dropout(const Tensor& x, const Tensor& sample_ids, double p, std::int64_t key) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("comera::dropout", "")
                             .typed<Tensor(const Tensor&, const Tensor&, double, std::int64_t)>();
  return op.call(x, sample_ids, p, key);
}

Tensor call_dropout_add(const Tensor& x, const Tensor& residual, const Tensor& sample_ids, double p,
                        std::int64_t key) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("comera::dropout_add", "")
          .typed<Tensor(const Tensor&, const Tensor&, const Tensor&, double, std::int64_t)>();
  return op.call(x, residual, sample_ids, p, key);
}

/// Dropout is linear: its gradient is the same dropout of the gradient.
class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& sample_ids,
                        double p, std::int64_t key) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({sample_ids});
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    return call_dropout(x, sample_ids, p, key);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor sample_ids = context->get_saved_variables()[0];
    return {call_dropout(gradients[0], sample_ids, context->saved_data["p"].toDouble(),
                         context->saved_data["key"].toInt()),
            Tensor(), Tensor(), Tensor()};
  }
};

class DropoutAddFunction : public torch::autograd::Function<DropoutAddFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& residual,
                        const Tensor& sample_ids, double p, std::int64_t key) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({sample_ids});
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    return call_dropout_add(x, residual, sample_ids, p, key);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor sample_ids = context->get_saved_variables()[0];
    const Tensor x_gradient = context->needs_input_grad(0) ? call_dropout(gradients[0], sample_ids,
                                                                          context->saved_data["p"].toDouble(),
                                                                          context->saved_data["key"].toInt())
                                                           : Tensor();
    return {x_gradient, gradients[0], Tensor(), Tensor(), Tensor()};
  }
};

Tensor dropout_autograd(const Tensor& x, const Tensor& sample_ids, double p, std::int64_t key) {
  if (use_reference()) return reference::dropout(x, mask_of(sample_ids, p, key));
  return DropoutFunction::apply(x, sample_ids, p, key);
}

Tensor dropout_add_autograd(const Tensor& x, const Tensor& residual, const Tensor& sample_ids, double p,
                            std::int64_t key) {
  if (use_reference()) return reference::dropout_add(x, residual, mask_of(sample_ids, p, key));
  return DropoutAddFunction::apply(x, residual, sample_ids, p, key);
}

}  // namespace

Tensor dropout(const Tensor& x, const DropoutMask& mask) {
  if (mask.p == 0) return x;
  return call_dropout(x, mask.sample_ids, mask.p, signed_key(mask.key));
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask) {
  if (mask.p == 0) return residual + x;
  return call_dropout_add(x, residual, mask.sample_ids, mask.p, signed_key(mask.key));
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  m.def("dropout(Tensor x, Tensor sample_ids, float p, int key) -> Tensor");
  m.def("dropout_add(Tensor x, Tensor residual, Tensor sample_ids, float p, int key) -> Tensor");
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
