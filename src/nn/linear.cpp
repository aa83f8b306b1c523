#include "host_random.h"

#include <comera/base/error.h>
#include <comera/exec/linear.h>
#include <comera/nn/linear.h>
#include <comera/weights/initialise.h>
#include <comera/weights/materialize.h>

#include <cmath>

namespace comera::nn {

DenseLinear::DenseLinear(std::int64_t in, std::int64_t out, bool with_bias, std::uint64_t key) {
  weight =
      register_parameter("weight", normal_tensor({out, in}, 1 / std::sqrt(static_cast<double>(in)), key));
  if (with_bias) bias = register_parameter("bias", torch::zeros({out}));
}

torch::Tensor DenseLinear::forward(const torch::Tensor& x) {
  check(x.dim() >= 1 && x.size(-1) == weight.size(1), "[linear] expected last input dimension {}, got {}",
        weight.size(1), x.dim() ? x.size(-1) : 0);
  return torch::linear(x, weight, bias);
}

LayerInfo DenseLinear::info() const {
  const std::int64_t count = weight.numel() + (bias.defined() ? bias.numel() : 0);
  return {name(), "dense", std::nullopt, count, count, ""};
}

TtLinearImpl::TtLinearImpl(const TtLinearOptions& options)
    : TtLinearImpl(format::tt(options.in, options.out, options.ranks), options.bias, options.key) {}

TtLinearImpl::TtLinearImpl(format::Shape shape, bool with_bias, std::uint64_t key, std::string warning)
    : weight_(std::move(shape)), warning_(std::move(warning)) {
  weight_.register_in(*this);
  weights::initialise_spectral(weight_, key);
  if (with_bias) bias = register_parameter("bias", torch::zeros({weight_.shape().cols}));
}

torch::Tensor TtLinearImpl::forward(const torch::Tensor& x) {
  const format::Shape& shape = weight_.shape();
  check(x.dim() >= 1 && x.size(-1) == shape.rows, "[tt_linear] expected last input dimension {}, got {}",
        shape.rows, x.dim() ? x.size(-1) : 0);
  const std::optional<torch::Tensor> maybe_bias = bias.defined() ? std::optional(bias) : std::nullopt;
  if (plan_) return exec::planned_linear(plan_, x, weight_, maybe_bias);
  if (a_.defined()) return exec::run_factors(x, a_, b_, maybe_bias);
  return exec::tt_linear(x, weight_, maybe_bias);
}

LayerInfo TtLinearImpl::info() const {
  const format::Shape& shape = weight_.shape();
  const std::int64_t biases = bias.defined() ? bias.numel() : 0;
  return {name(),
          shape.order() == 2 ? "low_rank" : "tt",
          shape,
          shape.parameters() + biases,
          shape.dense_parameters() + biases,
          warning_};
}

torch::Tensor TtLinearImpl::materialize() const { return weights::materialize(weight_); }

void TtLinearImpl::bind(torch::Tensor a, torch::Tensor b) {
  begin_use();
  a_ = std::move(a), b_ = std::move(b);
}

void TtLinearImpl::bind(exec::SharedPlan plan) {
  begin_use();
  plan_ = std::move(plan);
}

void TtLinearImpl::begin_use() {
  check(!a_.defined() && !plan_, "[tt_linear] already in a FactorScope; one at a time for a model");
  weight_.begin_use();
}

void TtLinearImpl::unbind() {
  a_ = torch::Tensor(), b_ = torch::Tensor();
  plan_ = nullptr;
  weight_.end_use();
}

std::shared_ptr<LinearBase> make_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias,
                                        const LayerFormat& format, std::uint64_t key) {
  if (format.kind == LayerKind::dense) return std::make_shared<DenseLinear>(in, out, bias, key);
  std::string warning;
  format::Shape shape = linear_shape(name, in, out, format, &warning);
  return std::make_shared<TtLinearImpl>(std::move(shape), bias, key, std::move(warning));
}

}  // namespace comera::nn
