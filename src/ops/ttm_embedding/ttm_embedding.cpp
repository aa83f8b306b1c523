#include "autograd.h"
#include "ttm_embedding/products.h"

#include <comera/base/error.h>
#include <comera/ops/implementation.h>
#include <comera/ops/ttm_embedding.h>

#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/library.h>

namespace comera::ops {
namespace {

using torch::Tensor, torch::TensorList;
using torch::autograd::AutogradContext, torch::autograd::variable_list;
namespace products = ttm_products;

constexpr const char* kSchema =
    "ttm_embedding(Tensor indices, Tensor[] cores, Tensor[] scales, int rows) -> Tensor";
constexpr const char* kBackwardSchema =
    "ttm_embedding_backward(Tensor dy, Tensor indices, Tensor[] cores, Tensor[] scales, bool[2] needed) -> "
    "Tensor[]";

void check_cores(TensorList cores, TensorList scales, std::int64_t rows) {
  const std::int64_t order = cores.size();
  check(order >= 1 && static_cast<std::int64_t>(scales.size()) == order - 1,
        "[ttm_embedding] expected K cores and K - 1 scales, got {} and {}", order, scales.size());
  std::int64_t held = 1;
  for (std::int64_t k = 0; k < order; ++k) {
    const Tensor& core = cores[k];
    const std::int64_t left = k == 0 ? 1 : cores[k - 1].size(-1);
    check(core.dim() == 4 && core.size(0) == left && (k + 1 < order || core.size(3) == 1) &&
              core.options().type_equal(cores[0].options()),
          "[ttm_embedding] core {} is {} [{}], expected {} [{}, m, n, {}]", k, core.toString(),
          fmt::join(core.sizes(), ", "), cores[0].toString(), left, k + 1 < order ? "r" : "1");
    check(!__builtin_mul_overflow(held, core.size(1), &held),
          "[ttm_embedding] the row digits multiply past 2^63");
    if (k + 1 == order) continue;
    check(scales[k].dim() == 1 && scales[k].size(0) == core.size(3) &&
              scales[k].options().type_equal(core.options()),
          "[ttm_embedding] the scale behind core {} is {} [{}], expected {} [{}]", k, scales[k].toString(),
          fmt::join(scales[k].sizes(), ", "), core.toString(), core.size(3));
  }
  check(rows >= 1 && rows <= held, "[ttm_embedding] the row digits hold {} rows, {} are asked for", held,
        rows);
}

template <class Index>
void check_range(const Tensor& indices, std::int64_t rows) {
  const auto values = indices.contiguous();
  const auto* first = values.const_data_ptr<Index>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    check(first[i] >= 0 && first[i] < rows,
          "[ttm_embedding] index {} at position {} is outside the table's {} rows", first[i], i, rows);
}

void check_index_type(const Tensor& indices) {
  const auto type = indices.scalar_type();
  check(type == torch::kInt32 || type == torch::kInt64,
        "[ttm_embedding] expected int32 or int64 indices, got {}", c10::toString(type));
}

// Only where the values are at hand: reading them elsewhere would wait for the device, which refuses them
// itself.
void check_indices(const Tensor& indices, std::int64_t rows) {
  check_index_type(indices);
  if (!indices.is_cpu() || at::isTensorSubclassLike(indices)) return;
  indices.scalar_type() == torch::kInt32 ? check_range<std::int32_t>(indices, rows)
                                         : check_range<std::int64_t>(indices, rows);
}

// Our kernels, which are for the CPU; tensors without values go the same way, to the shape functions.
bool use_kernels(const Tensor& indices, TensorList cores) {
  if (indices.is_meta()) return true;
  const auto type = cores[0].scalar_type();
  return !use_reference() && cores.size() > 1 && indices.is_cpu() &&
         (type == torch::kFloat32 || type == torch::kFloat64);
}

// Without them. A table of one core is a plain table.
Tensor from_torch_operators(const Tensor& indices, TensorList cores, TensorList scales, std::int64_t rows) {
  if (use_reference() || cores.size() > 1) return reference::ttm_embedding(indices, cores, scales, rows);
  check_indices(indices, rows);
  return at::embedding(cores[0].squeeze(-1).squeeze(0), indices);
}

class TtmEmbedding : public torch::autograd::Function<TtmEmbedding> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& indices, TensorList cores, TensorList scales,
                        std::int64_t rows) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    variable_list saved{indices};
    saved.insert(saved.end(), cores.begin(), cores.end());
    saved.insert(saved.end(), scales.begin(), scales.end());
    context->save_for_backward(std::move(saved));
    return ttm_embedding(indices, cores, scales, rows);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("ttm_embedding");
    static const auto op = operator_handle<decltype(products::backward)>("comera::ttm_embedding_backward");
    const auto saved = context->get_saved_variables();
    const TensorList tensors(saved);
    const std::size_t order = saved.size() / 2;
    const std::array<bool, 2> needed{context->needs_input_grad({{1, 1 + order}}),
                                     context->needs_input_grad({{1 + order, 2 * order}})};
    const auto wanted =
        op.call(gradients[0], tensors[0], tensors.slice(1, order), tensors.slice(1 + order), needed);
    variable_list result(2 * order + 1);
    std::copy(wanted.begin(), wanted.end(), result.begin() + (needed[0] ? 1 : 1 + order));
    return result;
  }
};

Tensor with_autograd(const Tensor& indices, TensorList cores, TensorList scales, std::int64_t rows) {
  check_cores(cores, scales, rows);
  check_index_type(indices);
  if (!use_kernels(indices, cores)) return from_torch_operators(indices, cores, scales, rows);
  return TtmEmbedding::apply(indices, cores, scales, rows);
}

Tensor without_autograd(const Tensor& indices, TensorList cores, TensorList scales, std::int64_t rows) {
  check_cores(cores, scales, rows);
  if (!use_kernels(indices, cores)) return from_torch_operators(indices, cores, scales, rows);
  check_indices(indices, rows);
  return products::forward(indices, cores, scales);
}

Tensor without_values(const Tensor& indices, TensorList cores, TensorList scales, std::int64_t rows) {
  check_cores(cores, scales, rows);
  check_index_type(indices);
  return products::forward_meta(indices, cores);
}

}  // namespace

Tensor ttm_embedding(const Tensor& indices, TensorList cores, TensorList scales, std::int64_t rows) {
  static const auto op = operator_handle<decltype(without_autograd)>("comera::ttm_embedding");
  return op.call(indices, cores, scales, rows);
}

Tensor reference::ttm_embedding(const Tensor& indices, TensorList cores, TensorList scales,
                                std::int64_t rows) {
  check_indices(indices, rows);
  auto rest = indices.flatten().to(torch::kInt64);
  std::int64_t below = 1;
  for (const Tensor& core : cores) below *= core.size(1);
  auto product = at::ones({rest.numel(), 1, 1}, cores[0].options());
  for (std::size_t k = 0; k < cores.size(); ++k) {
    below /= cores[k].size(1);
    const auto digits = rest.div(below, "floor");
    rest = rest - digits * below;
    const auto core = k < scales.size() ? cores[k] * scales[k] : cores[k];
    product = at::einsum("tcr,rtns->tcns", {product, core.index_select(1, digits)}).flatten(1, 2);
  }
  auto sizes = indices.sizes().vec();
  sizes.push_back(product.size(1));
  return product.reshape(sizes);
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kBackwardSchema}) m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("ttm_embedding", with_autograd); }
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) { m.impl("ttm_embedding", without_autograd); }
TORCH_LIBRARY_IMPL(comera, CPU, m) { m.impl("ttm_embedding_backward", products::backward); }
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("ttm_embedding", without_values);
  m.impl("ttm_embedding_backward", products::backward_meta);
}

}  // namespace comera::ops
