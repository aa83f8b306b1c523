// A tensor-train layer in a loop of one's own: torch::optim trains it, comera finds its ranks and cuts them.
#include <comera/comera.h>

#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  constexpr int kSteps = 400, kTokens = 256, kWidth = 64, kTarget = 1000;
  // What is to be learnt: a linear map of rank 4, seen through noise.
  const auto teacher = torch::randn({kWidth, 4}).matmul(torch::randn({4, kWidth})) / kWidth;

  comera::nn::TtLinear layer({.in = {8, 8}, .out = {8, 8}, .ranks = {16}});
  const comera::weights::TensorTrain& weight = layer->tensor_train();
  torch::optim::AdamW optimiser(layer->parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0));
  comera::optim::TorchOptimiserState moments(optimiser);
  comera::rank::Controller ranks({{"layer", weight}}, {.target_parameters = kTarget});

  double first = 0, last = 0;
  for (int step = 1; step <= kSteps; ++step) {
    const auto x = torch::randn({kTokens, kWidth});
    const auto y = x.matmul(teacher) + 0.01 * torch::randn({kTokens, kWidth});
    optimiser.zero_grad();
    const auto loss = torch::mse_loss(layer->forward(x), y);
    ranks.penalised(loss).backward();
    optimiser.step();
    last = loss.item<double>();
    if (step == 1) first = last;
    for (const auto& event :
         ranks.after_step({.step = step, .progress = double(step) / kSteps, .loss = last}, moments))
      std::printf("%s\n", to_string(event).c_str());
    if (step % 50 == 0 || step == 1) std::printf("step %3d  loss %.4f\n", step, last);
  }
  std::printf("loss %.4f -> %.4f, parameters %ld -> %ld (target %d)\n", first, last, long(ranks.start_size()),
              long(ranks.size()), kTarget);
  return last < first && ranks.size() <= kTarget ? 0 : 1;
}
