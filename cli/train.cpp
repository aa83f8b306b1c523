#include "command.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/train/memory.h>
#include <comera/train/trainer.h>

#include <iostream>
#include <memory>

namespace comera::cli {
namespace {

struct Options {
  std::string recipe, out, device, target;
  std::vector<std::string> set;
  std::int64_t threads = 0;
  bool resume = false, dry_run = false, overfit = false, json = false;
};

// Recipe keys, grouped by section, with defaults and meaning.
std::string keys_help() {
  std::string text = "Recipe keys (set them in the file, or with --set key=value):\n", section;
  for (const train::FieldHelp& field : train::recipe_help()) {
    const auto dot = field.key.find('.');
    const std::string now = dot == std::string::npos ? "" : field.key.substr(0, dot);
    if (now != section) text += fmt::format("\n  [{}]\n", section = now);
    text += fmt::format("  {:<28} default {:<22} {}\n", field.key, field.fallback, field.meaning);
  }
  return text +
         "\n  [[layers]]                   rules by layer name, the first that matches decides:\n"
         "    match = \"encoder.*.ffn.*\"    pattern; * stands for any run of characters\n"
         "    format = \"compressed\"        compressed (TT, for tables TTM), low_rank, or dense\n"
         "    ranks = 30                   one for all bonds, the inner ones, or all with the borders 1\n"
         "    in = [12, 8, 8]              digits of the input (tables: rows); chosen when absent\n"
         "    out = [8, 8, 12]             digits of the output (tables: columns); chosen when absent\n"
         "    digits = 3                   digits a side when they are chosen\n"
         "    digits = \"auto\"              linear layers: digits and ranks with the largest middle rank\n"
         "    parameters = \"20k\"           that these cores and scales allow\n";
}

int run(const Options& options) {
  std::vector<std::string> overrides = options.set;
  if (!options.device.empty()) overrides.push_back("train.device=" + options.device);
  if (options.threads != 0) overrides.push_back(fmt::format("train.threads={}", options.threads));
  if (!options.target.empty()) {
    std::int64_t target = 0;
    try {
      target = parse_count(options.target);
    } catch (const Error&) {
    }
    check(target >= 1, "--target-parameters {}: give a whole number, 1 or more, for example 500k",
          options.target);
    overrides.push_back("rank.target_parameters=" + std::to_string(target));
  }
  const train::Recipe recipe = train::read_recipe(options.recipe, overrides);
  set_threads(recipe.train.threads);

  if (options.dry_run) {
    std::string table;
    const Json json = train::dry_run(recipe, &table);
    options.json ? print_json(json) : say(false, table);
    return 0;
  }
  const auto say_line = [&](const std::string& line) { say(options.json, line); };
  const train::Task task = train::make_task(recipe, say_line);
  for (const std::string& note : task.notes) say_line(note);
  stop_gently();
  const std::filesystem::path out = options.out.empty() ? "runs/" + recipe.name : options.out;
  const Json summary = train::run_training(
      recipe, task, {out, options.resume, options.overfit, &stop_requested, idle_bytes(), say_line});
  if (options.json) {
    print_json(summary);
  } else {
    say(false,
        fmt::format(
            "{} parameters ({:.1f}x smaller than dense), {:.3f} s a step at the start, {:.3f} s at the end, "
            "peak memory {}; everything is in {}",
            format_count(summary["parameters"]["total"].get<double>()), summary["compression"].get<double>(),
            summary["step_seconds"]["first"].get<double>(), summary["step_seconds"]["last"].get<double>(),
            format_bytes(summary["peak_bytes"].get<double>()), out.string()));
  }
  return summary["interrupted"].get<bool>() ? 130 : 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train the model a recipe describes");
  command->add_option("recipe", options->recipe, "recipe file (TOML), for example configs/demo.toml")
      ->required();
  command
      ->add_option("--set", options->set,
                   "override a key of the recipe: key=value; may be given several times")
      ->allow_extra_args(false)
      ->group("Recipe");
  command
      ->add_option("--target-parameters", options->target,
                   "most compressible parameters at the end, for example 500k (rank.target_parameters)")
      ->group("Recipe");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N (train.device)")->group("Recipe");
  command->add_option("--threads", options->threads, "CPU threads (train.threads)")
      ->check(CLI::Range(0, 4096))
      ->group("Recipe");
  command->add_option("--out", options->out, "folder of the run; default runs/NAME")->group("Run");
  command->add_flag("--resume", options->resume, "go on from last.ckpt in the run's folder")->group("Run");
  command
      ->add_flag("--dry-run", options->dry_run,
                 "show layers, ranks, sizes and the memory estimate; train nothing")
      ->group("Run");
  command
      ->add_flag("--overfit-batch", options->overfit,
                 "train on the first batch only, without dropout: the loss of a sound model goes to 0")
      ->group("Run");
  command->add_flag("--json", options->json, "print the result as JSON on stdout")->group("Output");
  command->footer([] { return keys_help(); });
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
