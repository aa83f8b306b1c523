// A small two-layer regression that rank control is tried on, with its optimiser.
#pragma once

#include <comera/optim/adamw.h>
#include <comera/rank/controller.h>
#include <comera/weights/initialise.h>
#include <comera/weights/materialize.h>
#include <comera/weights/torch.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace comera::rank::test {

/// y = tanh(x W_first) W_second + x W_side, all three in tensor-train form, [12] -> [12].
struct Problem {
  std::vector<weights::NamedTensorTrain> weights;
  std::unique_ptr<optim::AdamW> optimiser;
  torch::Tensor held_out_x, held_out_y;

  explicit Problem(torch::ScalarType type = torch::kDouble, double learning_rate = 1e-2,
                   double scale_rate = 2e-2) {
    for (const char* name : {"first", "second", "side"}) {
      weights.push_back({name, weights::TensorTrain(format::tt({4, 3}, {3, 4}, {4, 8, 4}), type)});
      weights::initialise_spectral(weights.back().weight, weights.size());
    }
    make_optimiser(learning_rate, scale_rate);
    std::tie(held_out_x, held_out_y) = batch(1'000'000);
  }

  void make_optimiser(double learning_rate, double scale_rate) {
    std::vector<optim::Parameter> parameters;
    for (const auto& [name, weight] : weights) {
      int k = 0;
      for (const auto& core : weight.cores())
        parameters.push_back({name + ".cores." + std::to_string(k++), core, "cores"});
      k = 0;
      for (const auto& scale : weight.scales())
        parameters.push_back({name + ".scales." + std::to_string(k++), scale, "scales"});
    }
    optimiser = std::make_unique<optim::AdamW>(
        parameters, std::vector<optim::Group>{{"cores", learning_rate}, {"scales", scale_rate}});
  }

  /// The same batch for the same step, made from a matrix of low rank.
  std::pair<torch::Tensor, torch::Tensor> batch(std::int64_t step) const {
    const auto options = weights[0].weight.cores()[0].options().requires_grad(false);
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(7);
    const torch::Tensor teacher =
        torch::randn({12, 2}, generator, options).matmul(torch::randn({2, 12}, generator, options)) / 4;
    generator.set_current_seed(1000 + step);
    const torch::Tensor x = torch::randn({32, 12}, generator, options);
    return {x, x.matmul(teacher)};
  }

  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& y) const {
    const auto matrix = [&](int i) { return weights::materialize(weights[i].weight); };
    return (torch::tanh(x.matmul(matrix(0))).matmul(matrix(1)) + x.matmul(matrix(2)) - y).square().mean();
  }

  Probe probe() const {
    return {[this] {
      const torch::NoGradGuard no_grad;
      return loss(held_out_x, held_out_y).item<double>();
    }};
  }

  /// Steps first..last (1-based) of a run of `total`.
  std::vector<Event> run(Controller& ranks, std::int64_t first, std::int64_t last, std::int64_t total) {
    std::vector<Event> events;
    for (std::int64_t step = first; step <= last; ++step) {
      optimiser->zero_gradients();
      const auto [x, y] = batch(step);
      const torch::Tensor value = loss(x, y);
      value.backward();
      ranks.before_step();
      optimiser->step();
      for (auto& [name, weight] : weights) weight.values_changed();
      const auto list = ranks.after_step(
          {.step = step, .progress = static_cast<double>(step) / total, .loss = value.item<double>()},
          *optimiser);
      events.insert(events.end(), list.begin(), list.end());
    }
    return events;
  }

  std::int64_t size() const {
    std::int64_t total = 0;
    for (const auto& [name, weight] : weights) total += weight.shape().parameters();
    return total;
  }
  std::vector<torch::Tensor> values() const {
    std::vector<torch::Tensor> result;
    for (const auto& parameter : optimiser->parameters().parameters())
      result.push_back(parameter.tensor.detach().clone());
    return result;
  }
};

}  // namespace comera::rank::test
