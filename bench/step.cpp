// One training step of a recipe's model on random tokens, run when told to: reads lines from stdin, answers
// each with one line of JSON. bench/step.py drives it beside PyTorch, a step of each in turn.
//   bench_step RECIPE THREADS BATCH LENGTH [RANK_SHARE]
//   step -> {"seconds", "loss", "peak_bytes"}     info -> {"parameters", "state_bytes",
//   "expected_state_bytes"}
#include <comera/base/error.h>
#include <comera/base/json.h>
#include <comera/nn/factor_scope.h>
#include <comera/nn/model.h>
#include <comera/optim/adamw.h>
#include <comera/train/memory.h>
#include <comera/train/recipe.h>
#include <comera/weights/rounding.h>
#include <comera/weights/torch.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>

using namespace comera;

namespace {

struct Step {
  train::Recipe recipe;
  std::int64_t batch, length, steps = 0;
  std::shared_ptr<nn::Model> model;
  std::unique_ptr<optim::AdamW> optimiser;
  nn::ModelInput input;
  torch::Tensor labels;
  nn::Context context;

  Step(const train::Recipe& from, std::int64_t batch, std::int64_t length)
      : recipe(from), batch(batch), length(length) {
    const std::int64_t classes = 3;
    model = std::make_shared<nn::Model>(train::model_options(recipe, recipe.data.vocabulary_size, classes),
                                        train::layer_rules(recipe), recipe.train.seed);
    std::vector<optim::Parameter> parameters;
    for (const auto& p : model->named_parameters()) parameters.push_back({p.key(), p.value(), "all"});
    optimiser =
        std::make_unique<optim::AdamW>(std::move(parameters), std::vector<optim::Group>{{"all", 1e-4, 0}},
                                       optim::AdamWOptions{.clip_norm = recipe.train.clip});
    torch::manual_seed(1);
    input.tokens = torch::randint(0, recipe.data.vocabulary_size, {batch, length});
    input.segments = torch::zeros({batch, length}, torch::kInt64);
    labels = torch::randint(0, classes, {batch});
    context.training = true;
    context.seed = 1;
    context.sample_ids = torch::arange(batch);
    context.lengths = torch::full({batch}, length, torch::kInt64);
  }

  // Cuts every inner rank to `share` of itself, moments with them.
  void cut(double share) {
    std::vector<weights::WeightChange> changes;
    for (auto& [name, weight] : model->trains()) {
      std::vector<std::int64_t> ranks;
      for (std::int64_t k = 0; k < weight.shape().bonds(); ++k)
        ranks.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(weight.shape().rank(k) * share)));
      auto change = weights::round_to_ranks(weight, name, ranks);
      weights::apply(weight, change);
      changes.push_back({weight, std::move(change)});
    }
    optimiser->apply(changes);
  }

  Json run() {
    train::reset_peak_allocated_bytes();
    const auto start = std::chrono::steady_clock::now();
    context.step = static_cast<std::uint64_t>(steps++);
    optimiser->zero_gradients();
    nn::FactorScope factors(*model);
    const nn::LossSum sums = nn::cross_entropy_sum(model->logits(input, context), labels);
    const torch::Tensor loss = sums.loss / batch;
    loss.backward();
    factors.pull_back();
    optimiser->step();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {
        {"seconds", seconds}, {"loss", loss.item<double>()}, {"peak_bytes", train::peak_allocated_bytes()}};
  }

  Json info() const {
    const std::int64_t count = nn::model_size(*model).total;
    return {{"parameters", count},
            {"state_bytes", optimiser->parameters().bytes() + optimiser->bytes()},
            {"expected_state_bytes", 4 * 4 * count}};
  }
};

}  // namespace

int main(int argc, char** argv) try {
  check(argc == 5 || argc == 6, "usage: bench_step RECIPE THREADS BATCH LENGTH [RANK_SHARE]");
  train::install_allocation_counter();
  torch::set_num_threads(std::stoi(argv[2]));
  Step step(train::read_recipe(argv[1]), std::stoll(argv[3]), std::stoll(argv[4]));
  if (argc == 6) step.cut(std::stod(argv[5]));
  for (std::string line; std::getline(std::cin, line);)
    std::cout << (line == "info" ? step.info() : step.run()) << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::cerr << "bench_step: " << error.what() << std::endl;
  return 1;
}
