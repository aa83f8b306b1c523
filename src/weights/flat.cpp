#include <comera/base/error.h>
#include <comera/weights/flat.h>

#include <unordered_set>

namespace comera::weights {
namespace {

bool lies_in(const torch::Tensor& tensor, const torch::Tensor& part) {
  return tensor.defined() && tensor.data_ptr() == part.data_ptr() && tensor.sizes() == part.sizes();
}

}  // namespace

FlatBuffer::FlatBuffer(const std::vector<torch::Tensor>& tensors) {
  std::int64_t total = 0;
  for (const torch::Tensor& tensor : tensors) {
    check(tensor.scalar_type() == tensors[0].scalar_type() && tensor.device() == tensors[0].device(),
          "[flat buffer] all tensors must have one dtype and device, got {} on {} beside {} on {}",
          c10::toString(tensor.scalar_type()), tensor.device().str(), c10::toString(tensors[0].scalar_type()),
          tensors[0].device().str());
    offsets_.push_back(total);
    total += tensor.numel();
  }
  const torch::NoGradGuard no_grad;
  flat_ = torch::empty({total},
                       tensors.empty() ? torch::TensorOptions() : tensors[0].options().requires_grad(false));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts_.push_back(flat_.narrow(0, offsets_[i], tensors[i].numel()).view(tensors[i].sizes()));
    parts_[i].copy_(tensors[i]);
  }
}

FlatParameters::FlatParameters(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  std::unordered_set<std::string> names;
  std::unordered_set<const void*> tensors;
  for (const Parameter& parameter : parameters_) {
    check(names.insert(parameter.name).second, "[flat parameters] {} is listed twice", parameter.name);
    check(tensors.insert(parameter.tensor.unsafeGetTensorImpl()).second,
          "[flat parameters] {} is the same tensor as another parameter; list a shared tensor once",
          parameter.name);
    check(parameter.tensor.is_leaf() && parameter.tensor.requires_grad(),
          "[flat parameters] {} is not a parameter: it must be a leaf that requires a gradient",
          parameter.name);
  }
  refresh();
}

const FlatBuffer& FlatParameters::values() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    check(lies_in(parameters_[i].tensor, values_.parts()[i]),
          "[flat parameters] {} was replaced; call refresh() after a change of ranks", parameters_[i].name);
  return values_;
}

const FlatBuffer& FlatParameters::gradients() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    check(lies_in(parameters_[i].tensor.grad(), gradients_.parts()[i]),
          "[flat parameters] the gradient of {} was replaced; clear gradients by zero_gradients(), and call "
          "refresh() after a change of ranks",
          parameters_[i].name);
  return gradients_;
}

void FlatParameters::zero_gradients() {
  values();  // a parameter of another size cannot take its old gradient
  gradients_.flat().zero_();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    if (!lies_in(gradient, gradients_.parts()[i])) gradient = gradients_.parts()[i];
  }
}

void FlatParameters::refresh() {
  std::vector<torch::Tensor> values, gradients;
  for (const Parameter& parameter : parameters_) {
    values.push_back(parameter.tensor.detach());
    const torch::Tensor& gradient = parameter.tensor.grad();
    gradients.push_back(gradient.defined() ? gradient : torch::zeros_like(values.back()));
  }
  values_ = FlatBuffer(values);
  gradients_ = FlatBuffer(gradients);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i].tensor;
    parameter.mutable_grad() = torch::Tensor();
    parameter.set_data(values_.parts()[i]);
    parameter.mutable_grad() = gradients_.parts()[i];
  }
}

std::int64_t FlatParameters::bytes() const { return values_.flat().nbytes() + gradients_.flat().nbytes(); }

}  // namespace comera::weights
