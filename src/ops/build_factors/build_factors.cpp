#include "autograd.h"
#include "build_factors/chains.h"

#include <comera/base/error.h>
#include <comera/ops/build_factors.h>
#include <comera/ops/implementation.h>

#include <torch/library.h>

namespace comera::ops {
namespace {

using torch::Tensor, torch::TensorList;
using Factors = std::tuple<Tensor, Tensor>;
using torch::autograd::AutogradContext, torch::autograd::variable_list;
namespace chains = build_factors_chains;

constexpr const char* kSchema =
    "build_factors(Tensor[] cores, Tensor[] scales, int layers, int split) -> (Tensor a, Tensor b)";
constexpr const char* kForwardSchema =
    "build_factors_forward(Tensor[] cores, Tensor[] scales, int layers, int split) -> Tensor[]";
constexpr const char* kBackwardSchema =
    "build_factors_backward(Tensor da, Tensor db, Tensor[] cores, Tensor[] scales, Tensor[] saved, int "
    "layers, "
    "int split, bool[2] needed) -> Tensor[]";

void check_inputs(TensorList cores, TensorList scales, std::int64_t layers, std::int64_t split) {
  const std::int64_t count = cores.size();
  check(layers >= 1 && count % std::max<std::int64_t>(layers, 1) == 0 && count >= 2 * layers,
        "[build_factors] expected 2 or more cores for each of {} layers, got {} in all", layers, count);
  const std::int64_t positions = count / layers;
  check(static_cast<std::int64_t>(scales.size()) == layers * (positions - 1),
        "[build_factors] {} layers of {} cores have {} scales, got {}", layers, positions,
        layers * (positions - 1), scales.size());
  check(split >= 1 && split < positions, "[build_factors] expected a split from 1 to {}, got {}",
        positions - 1, split);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t layer = i / positions, k = i % positions;
    const Tensor& core = cores[i];
    check(
        core.dim() == 3 && core.sizes() == cores[k].sizes() && core.options().type_equal(cores[0].options()),
        "[build_factors] core {} of layer {} is {} [{}]; every layer needs {} [{}], three dimensions", k,
        layer, core.toString(), fmt::join(core.sizes(), ", "), cores[0].toString(),
        fmt::join(cores[k].sizes(), ", "));
    const std::int64_t right = k + 1 < positions ? cores[i + 1].size(0) : 1;
    check(core.size(2) == right && (k > 0 || core.size(0) == 1),
          "[build_factors] core {} of layer {} is [{}]: its left rank must be {} and its right rank {}", k,
          layer, fmt::join(core.sizes(), ", "), k == 0 ? 1 : core.size(0), right);
    if (k + 1 == positions) continue;
    const Tensor& scale = scales[layer * (positions - 1) + k];
    check(scale.dim() == 1 && scale.size(0) == right && scale.options().type_equal(core.options()),
          "[build_factors] the scale behind core {} of layer {} is {} [{}], expected {} [{}]", k, layer,
          scale.toString(), fmt::join(scale.sizes(), ", "), core.toString(), right);
  }
}

std::vector<Tensor> call_forward(TensorList cores, TensorList scales, std::int64_t layers,
                                 std::int64_t split) {
  static const auto op = operator_handle<decltype(chains::forward)>("comera::build_factors_forward");
  return op.call(cores, scales, layers, split);
}

class BuildFactors : public torch::autograd::Function<BuildFactors> {
 public:
  static variable_list forward(AutogradContext* context, TensorList cores, TensorList scales,
                               std::int64_t layers, std::int64_t split) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto results = call_forward(cores, scales, layers, split);
    variable_list saved(cores.begin(), cores.end());
    saved.insert(saved.end(), scales.begin(), scales.end());
    saved.insert(saved.end(), results.begin() + 2, results.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["layers"] = layers;
    context->saved_data["split"] = split;
    context->saved_data["cores"] = static_cast<std::int64_t>(cores.size());
    return {results[0], results[1]};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("build_factors");
    static const auto op = operator_handle<decltype(chains::backward)>("comera::build_factors_backward");
    const auto saved = context->get_saved_variables();
    const std::int64_t layers = context->saved_data["layers"].toInt();
    const std::size_t cores = context->saved_data["cores"].toInt(), scales = cores - layers;
    const std::array<bool, 2> needed{context->needs_input_grad({{0, cores}}),
                                     context->needs_input_grad({{cores, cores + scales}})};
    const TensorList all(saved);
    const auto stacked =
        op.call(gradients[0], gradients[1], all.slice(0, cores), all.slice(cores, scales),
                all.slice(cores + scales), layers, context->saved_data["split"].toInt(), needed);

    // Gradients come by position, the inputs were given by layer.
    variable_list result(cores + scales + 2);
    auto next = stacked.begin();
    const auto spread = [&](std::size_t first, std::size_t count) {
      const std::size_t positions = count / layers;
      for (std::size_t k = 0; k < positions; ++k) {
        const auto by_layer = (next++)->unbind(0);
        for (std::size_t layer = 0; layer < by_layer.size(); ++layer)
          result[first + layer * positions + k] = by_layer[layer];
      }
    };
    if (needed[0]) spread(0, cores);
    if (needed[1]) spread(cores, scales);
    return result;
  }
};

Factors with_autograd(TensorList cores, TensorList scales, std::int64_t layers, std::int64_t split) {
  check_inputs(cores, scales, layers, split);
  if (use_reference()) return reference::build_factors(cores, scales, layers, split);
  const auto factors = BuildFactors::apply(cores, scales, layers, split);
  return {factors[0], factors[1]};
}

Factors without_autograd(TensorList cores, TensorList scales, std::int64_t layers, std::int64_t split) {
  check_inputs(cores, scales, layers, split);
  if (use_reference()) return reference::build_factors(cores, scales, layers, split);
  const auto results = call_forward(cores, scales, layers, split);
  return {results[0], results[1]};
}

}  // namespace

Factors build_factors(TensorList cores, TensorList scales, std::int64_t layers, std::int64_t split) {
  static const auto op = operator_handle<decltype(without_autograd)>("comera::build_factors");
  return op.call(cores, scales, layers, split);
}

Factors reference::build_factors(TensorList cores, TensorList scales, std::int64_t layers,
                                 std::int64_t split) {
  const std::int64_t positions = cores.size() / layers;
  std::vector<Tensor> a, b;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto core = [&](std::int64_t k) {
      const auto& values = cores[layer * positions + k];
      return k + 1 < positions ? values * scales[layer * (positions - 1) + k] : values;
    };
    auto left = core(0), right = core(split);
    for (std::int64_t k = 1; k < split; ++k) left = at::tensordot(left, core(k), {-1}, {0}).flatten(1, 2);
    for (std::int64_t k = split + 1; k < positions; ++k)
      right = at::tensordot(right, core(k), {-1}, {0}).flatten(1, 2);
    a.push_back(left.squeeze(0));
    b.push_back(right.squeeze(-1));
  }
  return {at::stack(a), at::stack(b)};
}

TORCH_LIBRARY_FRAGMENT(comera, m) {
  for (const char* schema : {kSchema, kForwardSchema, kBackwardSchema})
    m.def(schema, {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(comera, Autograd, m) { m.impl("build_factors", with_autograd); }
TORCH_LIBRARY_IMPL(comera, CompositeExplicitAutograd, m) {
  m.impl("build_factors", without_autograd);
  m.impl("build_factors_forward", chains::forward);
  m.impl("build_factors_backward", chains::backward);
}
TORCH_LIBRARY_IMPL(comera, Meta, m) {
  m.impl("build_factors_forward", chains::forward_meta);
  m.impl("build_factors_backward", chains::backward_meta);
}

}  // namespace comera::ops
