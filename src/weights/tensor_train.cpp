#include <comera/base/error.h>
#include <comera/weights/tensor_train.h>

namespace comera::weights {
namespace {

// Weak is the pointer type of the torch version at hand.
template <class Weak>
void forget_accumulator(const torch::Tensor& parameter, void (*set)(const torch::Tensor&, Weak)) {
  set(parameter, Weak(decltype(std::declval<Weak>().lock())()));
}

}  // namespace

TensorTrain::TensorTrain(format::Shape shape, torch::TensorOptions options)
    : state_(std::make_shared<State>()) {
  format::validate(shape, "tensor_train");
  state_->shape = std::move(shape);
  for (std::int64_t k = 0; k < state_->shape.order(); ++k)
    state_->cores->register_parameter(std::to_string(k), torch::zeros(state_->shape.core_shape(k), options));
  for (std::int64_t k = 0; k < state_->shape.bonds(); ++k)
    state_->scales->register_parameter(std::to_string(k), torch::ones({state_->shape.rank(k)}, options));
}

void TensorTrain::register_in(torch::nn::Module& owner) const {
  owner.register_module("cores", state_->cores);
  owner.register_module("scales", state_->scales);
}

std::vector<torch::Tensor> TensorTrain::cores() const { return state_->cores->parameters(); }
std::vector<torch::Tensor> TensorTrain::scales() const { return state_->scales->parameters(); }

void TensorTrain::replace(const std::vector<torch::Tensor>& cores, const std::vector<torch::Tensor>& scales) {
  check(state_->uses == 0,
        "[tensor_train] ranks cannot change between a forward and its backward; call it after the "
        "backward, before the next forward");
  const auto old_cores = this->cores(), old_scales = this->scales();
  check(cores.size() == old_cores.size() && scales.size() == old_scales.size(),
        "[tensor_train] expected {} cores and {} scales, got {} and {}", old_cores.size(), old_scales.size(),
        cores.size(), scales.size());
  format::Shape shape = state_->shape;
  for (std::size_t k = 0; k < scales.size(); ++k) {
    check(scales[k].dim() == 1, "[tensor_train] rank scales {} must be a vector, got {} dimensions", k,
          scales[k].dim());
    shape.ranks[k + 1] = scales[k].size(0);
  }
  format::validate(shape, "tensor_train");
  for (std::size_t k = 0; k < cores.size(); ++k)
    check(cores[k].sizes() == torch::IntArrayRef(shape.core_shape(k)),
          "[tensor_train] core {} has sizes {}, expected {}", k, fmt::join(cores[k].sizes(), ","),
          fmt::join(shape.core_shape(k), ","));
  const auto assign = [](torch::Tensor parameter, const torch::Tensor& value) {
    parameter.mutable_grad() = torch::Tensor();
    parameter.set_data(value.detach().contiguous().to(parameter.options().requires_grad(false), false, true));
    // A loss that is still alive keeps the accumulator of the old sizes; the next graph must not meet it.
    forget_accumulator(parameter, torch::autograd::impl::set_grad_accumulator);
  };
  for (std::size_t k = 0; k < cores.size(); ++k) assign(old_cores[k], cores[k]);
  for (std::size_t k = 0; k < scales.size(); ++k) assign(old_scales[k], scales[k]);
  state_->shape = std::move(shape);
  ++state_->geometry_version;
  ++state_->value_version;
}

}  // namespace comera::weights
