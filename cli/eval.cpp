#include "command.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/train/evaluate.h>
#include <comera/train/saved_model.h>
#include <comera/train/task.h>

#include <cmath>
#include <memory>

namespace comera::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::vector<std::string> files;
  std::int64_t threads = 0, batch_size = 64;
  bool json = false;
};

int run(const Options& options) {
  set_threads(options.threads);
  train::SavedModel saved = train::load_model(options.checkpoint);
  const auto say_line = [&](const std::string& line) { say(options.json, line); };
  const train::Task task =
      train::make_evaluation_task(saved.recipe, saved.tokenizer, saved.labels, options.files, say_line);
  train::EvaluateOptions evaluate;
  evaluate.batch = {.head = saved.model->options().head,
                    .mask_share = saved.recipe.data.mask_share,
                    .special = saved.tokenizer->special(),
                    .vocabulary = saved.tokenizer->vocabulary_size()};
  evaluate.batch_size = options.batch_size;
  evaluate.max_length = saved.recipe.data.max_length;
  const train::Evaluation result = train::evaluate(*saved.model, *task.held_out, evaluate);
  const double loss = result.find("loss").value;
  check(std::isfinite(loss),
        "{}: the model's loss here is {:g}, not finite: its run had gone wrong; train again, with a lower "
        "train.learning_rate",
        options.checkpoint, loss);
  const std::string source = options.files.empty() ? "held-out data of the recipe"
                                                   : fmt::format("{}", fmt::join(options.files, ", "));
  if (options.json) {
    Json json = result.to_json();
    json["source"] = source;
    json["hash"] = hex(task.held_out->content_hash());
    json["checkpoint"] = options.checkpoint;
    print_json(json);
    return 0;
  }
  say(false,
      fmt::format("{}: {} predictions, hash {}", source, result.samples, hex(task.held_out->content_hash())));
  for (const train::Metric& metric : result.metrics)
    say(false,
        fmt::format("  {:<11} {:>9.4f}   baseline {:>9.4f}", metric.name, metric.value, metric.baseline));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Measure a checkpoint on held-out data");
  command->add_option("checkpoint", options->checkpoint, "checkpoint, for example runs/demo/best.ckpt")
      ->required();
  command->add_option("files", options->files,
                      "data files in the recipe's layout; default: its data.validation");
  command->add_option("--batch-size", options->batch_size, "samples at a time; does not change the result")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "CPU threads; 0 = all available")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command->add_flag("--json", options->json, "print the result as JSON on stdout");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
