#include <comera/exec/linear.h>
#include <comera/format/shape.h>
#include <comera/nn/factor_scope.h>

namespace comera::nn {

FactorScope::FactorScope(torch::nn::Module& model, const LayerPlans& plans)
    : training_(torch::GradMode::is_enabled()) {
  // Groups keep the order in which the layers were registered, so that a step adds up in a fixed order.
  std::vector<TtLinearImpl*> layers;
  if (auto* alone = dynamic_cast<TtLinearImpl*>(&model)) layers.push_back(alone);
  for (const auto& module : model.named_modules("", /*include_self=*/false)) {
    auto* layer = dynamic_cast<TtLinearImpl*>(module.value().get());
    if (!layer) continue;
    if (const auto plan = plans.find(module.key()); plan != plans.end()) {
      layer->bind(plan->second);
      planned_.push_back(layer);
    } else {
      layers.push_back(layer);
    }
  }
  for (TtLinearImpl* layer : layers) {
    const auto same = [&](const Group& group) {
      return group.layers.front()->tensor_train().shape() == layer->tensor_train().shape();
    };
    const auto group = std::find_if(groups_.begin(), groups_.end(), same);
    if (group != groups_.end()) {
      group->layers.push_back(layer);
    } else {
      groups_.emplace_back().layers.push_back(layer);
    }
  }
  for (Group& group : groups_) {
    std::vector<weights::TensorTrain> trains;
    for (const TtLinearImpl* layer : group.layers) trains.push_back(layer->tensor_train());
    std::tie(group.a, group.b) = exec::build_factors(trains);
    if (training_) {
      group.a_gradient = torch::zeros_like(group.a);
      group.b_gradient = torch::zeros_like(group.b);
    }
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      const auto leaf = [&](const torch::Tensor& built, const torch::Tensor& gradient) {
        torch::Tensor factor = built.detach()[i];
        if (!training_) return factor;
        factor.requires_grad_();
        factor.mutable_grad() = gradient[i];
        return factor;
      };
      group.layers[i]->bind(leaf(group.a, group.a_gradient), leaf(group.b, group.b_gradient));
    }
  }
}

FactorScope::~FactorScope() {
  for (Group& group : groups_)
    for (TtLinearImpl* layer : group.layers) layer->unbind();
  for (TtLinearImpl* layer : planned_) layer->unbind();
}

void FactorScope::pull_back() {
  std::vector<torch::Tensor> outputs, gradients;
  for (Group& group : groups_) {
    if (!group.a.requires_grad()) continue;
    outputs.insert(outputs.end(), {group.a, group.b});
    gradients.insert(gradients.end(), {group.a_gradient, group.b_gradient});
  }
  if (!outputs.empty()) torch::autograd::backward(outputs, gradients);
}

}  // namespace comera::nn
