#include "autograd.h"
#include "factored_linear/products.h"

#include <comera/base/error.h>
#include <comera/ops/factored_linear.h>
#include <comera/ops/implementation.h>

#include <torch/library.h>

namespace comera::ops {
namespace {

using torch::Tensor;
using OptionalTensor = std::optional<Tensor>;
namespace products = factored_linear_products;

constexpr const char* kSchema = "factored_linear(Tensor x, Tensor a, Tensor b, Tensor? bias=None) -> Tensor";
constexpr const char* kForwardSchema =
    "factored_linear_forward(Tensor x, Tensor a, Tensor b, Tensor? bias) -> (Tensor y, Tensor latent)";
constexpr const char* kBackwardSchema =
    "factored_linear_backward(Tensor dy, Tensor x, Tensor latent, Tensor a, Tensor b, bool[4] needed) -> "
    "(Tensor dx, Tensor da, Tensor db, Tensor dbias)";

void check_inputs(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& bias) {
  check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
        "[factored_linear] expected factors a [in, r] and b [r, out], got [{}] and [{}]",
        fmt::join(a.sizes(), ", "), fmt::join(b.sizes(), ", "));
  check(x.dim() >= 1, "[factored_linear] expected x [..., {}], got a single number", a.size(0));
  check(x.size(-1) == a.size(0), "[factored_linear] expected last input dimension {}, got {}", a.size(0),
        x.size(-1));
  check(!bias || (bias->dim() == 1 && bias->size(0) == b.size(1)),
        "[factored_linear] expected a bias of {} numbers, got [{}]", b.size(1),
        fmt::join(bias ? bias->sizes() : torch::IntArrayRef(), ", "));
  for (const Tensor& other : {a, b, bias ? *bias : b})
    check(other.scalar_type() == x.scalar_type() && other.device() == x.device(),
          "[factored_linear] x, factors and bias must have one type and device, got {} {} and {} {}",
          c10::toString(x.scalar_type()), x.device().str(), c10::toString(other.scalar_type()),
          other.device().str());
}

std::tuple<Tensor, Tensor> call_forward(const Tensor& x, const Tensor& a, const Tensor& b,
                                        const OptionalTensor& bias) {
  static const auto op = operator_handle<decltype(products::forward)>("comera::factored_linear_forward");
  return op.call(x, a, b, bias);
}

class FactoredLinear : public torch::autograd::Function<FactoredLinear> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& a,
                        const Tensor& b, const OptionalTensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [y, latent] = call_forward(x, a, b, bias);
    context->save_for_backward({x, latent, a, b});
    context->saved_data["has_bias"] = bias.has_value();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("factored_linear");
    static const auto op = operator_handle<decltype(products::backward)>("comera::factored_linear_backward");
    const auto saved = context->get_saved_variables();
    products::Needed needed{};
    for (const auto input : {products::kX, products::kA, products::kB})
      needed[input] = context->needs_input_grad(input);
    needed[products::kBias] =
        context->saved_data["has_bias"].toBool() && context->needs_input_grad(products::kBias);
    auto [dx, da, db, dbias] = op.call(gradients[0], saved[0], saved[1], saved[2], saved[3], needed);
    return {dx, da, db, dbias};
  }
};

Tensor with_autograd(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& bias) {
  check_inputs(x, a, b, bias);
  if (use_reference()) return reference::factored_linear(x, a, b, bias);
  return FactoredLinear::apply(x, a, b, bias);
}

Tensor without_autograd(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& bias) {
  check_inputs(x, a, b, bias);
  if (use_reference()) return reference::factored_linear(x, a, b, bias);
  return std::get<0>(call_forward(x, a, b, bias));
}

}  // namespace

Tensor factored_linear(const Tensor& x, const Tensor& a, const Tensor& b, const OptionalTensor& bias) {
  static const auto op = operator_handle<decltype(without_autograd)>("comera::factored_linear");
  return op.call(x, a, b, bias);
}

Tensor reference::factored_linear(const Tensor& x, const Tensor& a, const Tensor& b,
                                  const OptionalTensor& bias) {
  const auto y = x.matmul(a).matmul(b);
  return bias ? y + *bias : y;
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kForwardSchema, kBackwardSchema})
    m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("factored_linear", with_autograd); }
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) {
  m.impl("factored_linear", without_autograd);
  m.impl("factored_linear_forward", products::forward);
  m.impl("factored_linear_backward", products::backward);
}
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("factored_linear_forward", products::forward_meta);
  m.impl("factored_linear_backward", products::backward_meta);
}

}  // namespace comera::ops
