#include "autograd.h"

#include <comera/base/error.h>
#include <comera/kernels/layer_norm.h>
#include <comera/ops/implementation.h>
#include <comera/ops/layer_norm.h>
#include <comera/ops/parallel.h>

#include <torch/library.h>

#include <algorithm>
#include <tuple>

namespace comera::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

constexpr const char* kSchema = "layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> Tensor";
constexpr const char* kBackwardSchema =
    "layer_norm_backward(Tensor dy, Tensor x, Tensor weight, float epsilon) -> "
    "(Tensor dx, Tensor d_weight, Tensor d_bias)";
constexpr std::int64_t kBlock = 64;  // rows whose gradients of weight and bias are summed together

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check(x.dim() >= 1 && x.is_floating_point(),
        "[layer_norm] expected a floating x of [..., features], got {} [{}]", c10::toString(x.scalar_type()),
        fmt::join(x.sizes(), ", "));
  for (const auto& [name, tensor] : {std::pair{"weight", weight}, std::pair{"bias", bias}})
    check(tensor.dim() == 1 && tensor.size(0) == x.size(-1) && tensor.scalar_type() == x.scalar_type() &&
              tensor.device() == x.device(),
          "[layer_norm] expected {} as {} [{}] on {}, got {} [{}] on {}", name,
          c10::toString(x.scalar_type()), x.size(-1), x.device().str(), c10::toString(tensor.scalar_type()),
          fmt::join(tensor.sizes(), ", "), tensor.device().str());
  check(epsilon >= 0, "[layer_norm] epsilon cannot be negative, got {}", epsilon);
}

bool has_kernel(const Tensor& x) {
  const auto type = x.scalar_type();
  return (x.is_cpu() || x.is_meta()) && (type == torch::kFloat32 || type == torch::kFloat64) &&
         !use_reference();
}

std::int64_t row_count(const Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

template <class T>
void run_kernel(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, const Tensor& y) {
  const kernels::LayerNormRows<T> rows = {x.const_data_ptr<T>(),
                                          weight.const_data_ptr<T>(),
                                          bias.const_data_ptr<T>(),
                                          y.mutable_data_ptr<T>(),
                                          x.size(-1),
                                          epsilon};
  parallel_ranges(row_count(x), kBlock,
                  [&](std::int64_t first, std::int64_t last) { kernels::layer_norm(rows, first, last); });
}

Tensor layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_arguments(x, weight, bias, epsilon);
  if (!has_kernel(x)) return reference::layer_norm(x, weight, bias, epsilon);
  const Tensor y = at::empty(x.sizes(), x.options());
  (x.scalar_type() == torch::kFloat32
       ? run_kernel<float>
       : run_kernel<double>)(x.contiguous(), weight.contiguous(), bias.contiguous(), epsilon, y);
  return y;
}

using Gradients = std::tuple<Tensor, Tensor, Tensor>;  // of x, weight and bias

template <class T>
Gradients run_gradient_kernel(const Tensor& dy, const Tensor& x, const Tensor& weight, double epsilon) {
  const std::int64_t count = row_count(x), features = x.size(-1), blocks = (count + kBlock - 1) / kBlock;
  const Tensor dx = at::empty(x.sizes(), x.options());
  const Tensor sums = at::zeros({blocks, 2, features}, x.options());
  T* sums_data = sums.mutable_data_ptr<T>();
  const kernels::LayerNormGradientRows<T> rows = {x.const_data_ptr<T>(),
                                                  weight.const_data_ptr<T>(),
                                                  dy.const_data_ptr<T>(),
                                                  dx.mutable_data_ptr<T>(),
                                                  features,
                                                  epsilon};
  parallel_ranges(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      T* of_block = sums_data + block * 2 * features;
      kernels::layer_norm_gradient(rows, block * kBlock, std::min(count, (block + 1) * kBlock), of_block,
                                   of_block + features);
    }
  });
  const Tensor d_weight = at::zeros({features}, x.options()), d_bias = at::zeros({features}, x.options());
  T *to_weight = d_weight.mutable_data_ptr<T>(), *to_bias = d_bias.mutable_data_ptr<T>();
  for (std::int64_t block = 0; block < blocks; ++block)
    for (std::int64_t i = 0; i < features; ++i) {
      to_weight[i] += sums_data[block * 2 * features + i];
      to_bias[i] += sums_data[(block * 2 + 1) * features + i];
    }
  return {dx, d_weight, d_bias};
}

// Only for what has a kernel: the reference has torch's own backward.
Gradients layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, double epsilon) {
  return (x.scalar_type() == torch::kFloat32
              ? run_gradient_kernel<float>
              : run_gradient_kernel<double>)(dy.contiguous(), x.contiguous(), weight.contiguous(), epsilon);
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x, weight});
    context->saved_data["epsilon"] = epsilon;
    return layer_norm(x, weight, bias, epsilon);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("layer_norm");
    static const auto op = operator_handle<decltype(layer_norm_backward)>("comera::layer_norm_backward");
    const variable_list saved = context->get_saved_variables();
    auto [dx, d_weight, d_bias] =
        op.call(gradients[0], saved[0], saved[1], context->saved_data["epsilon"].toDouble());
    return {dx, d_weight, d_bias, {}};
  }
};

Tensor layer_norm_meta(const Tensor& x, const Tensor&, const Tensor&, double) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

Gradients layer_norm_backward_meta(const Tensor&, const Tensor& x, const Tensor& weight, double) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(weight.sym_sizes(), x.options()),
          at::empty_symint(weight.sym_sizes(), x.options())};
}

Tensor layer_norm_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_arguments(x, weight, bias, epsilon);
  if (!has_kernel(x)) return reference::layer_norm(x, weight, bias, epsilon);
  return LayerNorm::apply(x, weight, bias, epsilon);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  static const auto handle = operator_handle<decltype(layer_norm_forward)>("comera::layer_norm");
  return handle.call(x, weight, bias, epsilon);
}

Tensor reference::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  return torch::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kBackwardSchema}) m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) {
  m.impl("layer_norm", layer_norm_forward);
  m.impl("layer_norm_backward", layer_norm_backward);
}
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("layer_norm", layer_norm_meta);
  m.impl("layer_norm_backward", layer_norm_backward_meta);
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("layer_norm", layer_norm_autograd); }

}  // namespace comera::ops
