#include "steps.h"

#include <comera/base/error.h>
#include <comera/exec/linear.h>
#include <comera/exec/run_plan.h>
#include <comera/ops/implementation.h>
#include <comera/weights/materialize.h>

#include <torch/csrc/autograd/graph_task.h>

namespace comera::exec {
namespace {

using torch::Tensor, torch::TensorList;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

// One run from its forward to its backward. Tensors between the two are kept here rather than by autograd, so
// that the backward can give each back as soon as the plan does.
struct Run : torch::CustomClassHolder {
  SharedPlan plan;
  Observer observe;
  std::int64_t tokens = 0;
  std::vector<Tensor> saved;  // by place in plan->saved
};

// Runs the steps of one half over `steps`.
void run_half(const Run& run, bool backward, Steps* steps) {
  for (const plan::Step& step : run.plan->steps) {
    if (step.backward != backward) continue;
    steps->run(step);
    if (run.observe) run.observe(step, steps->multiply_adds(step));
  }
}

class RunPlan : public torch::autograd::Function<RunPlan> {
 public:
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Run>& run, const Tensor& x,
                        TensorList cores) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const plan::Plan& plan = *run->plan;
    Steps steps(plan, run->tokens);
    const Tensor rows = x.contiguous();
    variable_list inputs{rows};
    for (const Tensor& core : cores) inputs.push_back(core.contiguous());
    for (std::size_t leaf = 0; leaf < inputs.size(); ++leaf) steps.values()[leaf] = inputs[leaf];
    run_half(*run, false, &steps);
    run->saved.clear();
    for (const int id : plan.saved) run->saved.push_back(steps.values()[id]);
    context->save_for_backward(std::move(inputs));
    context->saved_data["run"] = c10::IValue::make_capsule(run);
    return steps.values()[plan.results.back()].view({run->tokens, -1});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check(!torch::GradMode::is_enabled(),
          "[run_plan] has no second derivative (create_graph = true); COMERA_IMPL=reference selects one that "
          "does");
    const auto run = c10::static_intrusive_pointer_cast<Run>(context->saved_data["run"].toCapsule());
    const plan::Plan& plan = *run->plan;
    check(run->saved.size() == plan.saved.size(),
          "[run_plan] a second backward through one forward needs retain_graph = true the first time");
    Steps steps(plan, run->tokens);
    const auto inputs = context->get_saved_variables();
    for (std::size_t leaf = 0; leaf < inputs.size(); ++leaf) steps.values()[leaf] = inputs[leaf];
    steps.values()[plan.network.root()] = gradients[0].contiguous();
    for (std::size_t i = 0; i < plan.saved.size(); ++i) steps.values()[plan.saved[i]] = run->saved[i];
    if (!torch::autograd::get_current_graph_task_keep_graph()) run->saved = {Tensor()};
    run_half(*run, true, &steps);
    variable_list result(1);
    for (std::size_t leaf = 0; leaf < inputs.size(); ++leaf) {
      const int id = plan.results[leaf];
      const Tensor made = id < 0 ? Tensor() : steps.values()[id];
      result.push_back(made.defined() ? made.view(inputs[leaf].sizes()) : made);
    }
    return result;
  }
};

void check_inputs(const plan::Plan& plan, const Tensor& x, const std::vector<Tensor>& cores) {
  const plan::Network& network = plan.network;
  const std::int64_t tokens = plan.request.tokens;
  check(cores.size() + 2 == network.leaves.size(), "[run_plan] the plan has {} cores, got {}",
        network.leaves.size() - 2, cores.size());
  const std::int64_t width =
      plan::checked_elements(network, network.leaves[0].indices & ~plan::Indices{1}, "X");
  check(x.dim() == 2 && x.size(1) == width, "[run_plan] expected x [tokens, {}], got [{}]", width,
        fmt::join(x.sizes(), ", "));
  check(x.size(0) >= 1 && x.size(0) <= tokens && (x.size(0) > 1 || tokens == 1),
        "[run_plan] the plan is for {} tokens, got {}", tokens, x.size(0));
  const Steps steps(plan, x.size(0));
  for (std::size_t k = 0; k < cores.size(); ++k) {
    const std::int64_t expected = plan::checked_elements(network, network.leaves[k + 1].indices, "a core");
    check(cores[k].numel() == expected, "[run_plan] {} is [{}] in the plan, got [{}]",
          network.leaves[k + 1].name, fmt::join(steps.sizes(network.leaves[k + 1].indices), ", "),
          fmt::join(cores[k].sizes(), ", "));
  }
  bool core_gradient = false;
  for (const Tensor& one : cores) {
    check(one.scalar_type() == x.scalar_type() && one.device() == x.device(),
          "[run_plan] x and cores must have one type and device, got {} {} and {} {}",
          c10::toString(x.scalar_type()), x.device().str(), c10::toString(one.scalar_type()),
          one.device().str());
    core_gradient = core_gradient || one.requires_grad();
  }
  check(x.element_size() == plan::element_bytes(plan.request.dtype), "[run_plan] the plan is for {}, got {}",
        plan::to_string(plan.request.dtype), c10::toString(x.scalar_type()));
  if (!torch::GradMode::is_enabled()) return;
  check(!core_gradient || (network.wanted >> 1) != 0,
        "[run_plan] the plan has no gradients; plan with results all");
  check(!x.requires_grad() || (network.wanted & 1),
        "[run_plan] the plan has no gradient of x; plan with "
        "results all");
}

}  // namespace

Tensor run_plan(const SharedPlan& plan, const Tensor& x, const std::vector<Tensor>& cores, Observer observe) {
  check_inputs(*plan, x, cores);
  if (ops::use_reference()) return reference::run_plan(plan, x, cores);
  auto run = c10::make_intrusive<Run>();
  run->plan = plan;
  run->observe = std::move(observe);
  run->tokens = x.size(0);
  return RunPlan::apply(run, x, TensorList(cores));
}

Tensor reference::run_plan(const SharedPlan& plan, const Tensor& x, const std::vector<Tensor>& cores) {
  if (cores.size() == 1) return x.matmul(cores[0]);
  const std::int64_t layers = static_cast<std::int64_t>(plan->request.layers.size());
  std::vector<Tensor> results;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto core = [&](std::size_t k) { return layers > 1 ? cores[k][layer] : cores[k]; };
    Tensor w = core(0);
    for (std::size_t k = 1; k < cores.size(); ++k) w = at::tensordot(w, core(k), {-1}, {0});
    results.push_back(x.matmul(w.reshape({x.size(1), -1})));
  }
  return at::cat(results, 1);
}

Tensor planned_linear(const SharedPlan& plan, const Tensor& x, const weights::TensorTrain& weight,
                      const std::optional<Tensor>& bias) {
  const format::Shape& shape = weight.shape();
  check(x.dim() >= 1 && x.size(-1) == shape.rows, "[planned_linear] expected last input dimension {}, got {}",
        shape.rows, x.dim() ? x.size(-1) : 0);
  // No plan is for no tokens, and one for several copies other things than one for one would.
  const std::int64_t tokens = x.numel() / shape.rows;
  if (tokens == 0 || (tokens == 1 && plan->request.tokens > 1)) return tt_linear(x, weight, bias);
  Tensor rows = x.reshape({-1, shape.rows});
  std::int64_t width = 1;
  for (const std::int64_t digit : shape.row_digits) width *= digit;
  if (width != shape.rows) rows = at::constant_pad_nd(rows, {0, width - shape.rows});
  Tensor y = run_plan(plan, rows, weights::fold_scales(weight.cores(), weight.scales()));
  if (y.size(1) != shape.cols) {
    y = y.narrow(1, 0, shape.cols);
    if (bias) y = y + *bias;
  } else if (bias) {
    y.add_(*bias);
  }
  auto sizes = x.sizes().vec();
  sizes.back() = shape.cols;
  return y.reshape(sizes);
}

}  // namespace comera::exec
