#include "command.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/train/task.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <memory>

extern char** environ;

namespace comera::cli {
namespace {

struct Options {
  std::string recipe, out;
  std::vector<std::string> set;
  bool json = false;
};

// Each run is a process of its own, so that its memory is its own.
Json run_child(const Options& options, const std::string& name, std::vector<std::string> overrides) {
  const std::string out = (std::filesystem::path(options.out) / name).string();
  std::vector<std::string> words{own_program(), "train", options.recipe, "--out", out};
  if (options.json) words.push_back("--json");
  overrides.insert(overrides.begin(), options.set.begin(), options.set.end());
  for (const std::string& text : overrides) words.insert(words.end(), {"--set", text});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // With --json the children's stdout carries their JSON; people's lines are on stderr.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.json) posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(failed == 0, "[compare] cannot start {}: {}", words[0], std::strerror(failed));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    if (stop_requested) ::kill(child, SIGTERM);
  const bool stopped = WIFEXITED(status) ? WEXITSTATUS(status) == 130 : stop_requested.load();
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "[compare] the run '{}' {}", name,
        stopped ? "was stopped" : "failed; its message is above");
  return read_json(std::filesystem::path(out) / "summary.json");
}

std::string row(const std::string& name, const Json& s) {
  const double first = s["step_seconds"]["first"], last = s["step_seconds"]["last"];
  const double memory_first = s["step_peak_bytes"]["first"], memory_last = s["step_peak_bytes"]["last"];
  return fmt::format(
      "{:<26} {:>6} {:>8} {:>9.1f}% {:>8.3f} {:>10} {:>7.1f}x {:>8.3f} {:>8.3f} {:>10} {:>10} {:>10}\n", name,
      s["steps"].get<std::int64_t>(), format_duration(s["train_seconds"].get<double>()),
      100 * s["metric"]["value"].get<double>(), s["evaluation"]["loss"]["value"].get<double>(),
      format_count(s["parameters"]["total"].get<double>()), s["compression"].get<double>(), first, last,
      format_bytes(memory_first), format_bytes(memory_last), format_bytes(s["peak_bytes"].get<double>()));
}

int run(const Options& given) {
  Options options = given;
  const train::Recipe recipe = train::read_recipe(options.recipe, options.set);
  check(recipe.model.head == "classifier", "[compare] compares classifiers; the recipe's model.head is {}",
        recipe.model.head);
  check(!recipe.layers.empty(),
        "[compare] {} has no [[layers]] rules, so there is nothing to compare with dense", options.recipe);
  stop_gently();
  if (options.out.empty()) options.out = "runs/" + recipe.name;
  const auto tell = [&](const std::string& text) { say(options.json, text); };

  tell(fmt::format("1/3  dense, {} steps", recipe.train.steps));
  const Json dense = run_child(options, "dense", {"train.method=dense"});
  tell(fmt::format("\n2/3  compressed, {} steps", recipe.train.steps));
  const Json equal_steps = run_child(options, "compressed-equal-steps", {"train.method=compressed"});
  // The number of steps that fit into the dense run's seconds, from what a compressed step took on average.
  const double step_seconds =
      equal_steps["train_seconds"].get<double>() / static_cast<double>(recipe.train.steps);
  const auto steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(dense["train_seconds"].get<double>() / step_seconds));
  tell(fmt::format("\n3/3  compressed, {} steps: as long as the dense run took", steps));
  const Json equal_time = run_child(options, "compressed-equal-time",
                                    {"train.method=compressed", fmt::format("train.steps={}", steps)});

  const double ratio =
      dense["step_seconds"]["last"].get<double>() / equal_time["step_seconds"]["last"].get<double>();
  const Json result{{"dense", dense},
                    {"compressed_equal_steps", equal_steps},
                    {"compressed_equal_time", equal_time},
                    {"step_ratio", ratio}};
  write_file(std::filesystem::path(options.out) / "compare.json", result.dump(2) + "\n");
  if (options.json) {
    print_json(result);
    return 0;
  }
  const std::string metric = dense["metric"]["name"];
  std::string table = fmt::format(
      "\n{:<26} {:>6} {:>8} {:>10} {:>8} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>10}\n", "", "steps",
      "time", metric, "loss", "parameters", "smaller", "s/step", "s/step", "memory", "memory", "peak of");
  table += fmt::format("{:<26} {:>6} {:>8} {:>10} {:>8} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>10}\n",
                       "run", "", "", "held out", "nats", "", "", "start", "end", "start", "end", "run");
  table += row("dense", dense) + row("compressed, equal steps", equal_steps) +
           row("compressed, equal time", equal_time);
  const double base = dense["baseline_metric"], a = dense["metric"]["value"],
               b = equal_steps["metric"]["value"], c = equal_time["metric"]["value"];
  table += fmt::format(
      "\nAlways naming the most frequent class would be right in {:.1f}% of {} held-out samples.\n"
      "At equal time the compressed model is {:+.1f} points against dense, at equal steps {:+.1f}; a "
      "compressed step is "
      "{:.2f} times as fast.\nTable and curves: {}\n",
      100 * base, dense["evaluation"]["samples"].get<std::int64_t>(), 100 * (c - a), 100 * (b - a), ratio,
      options.out);
  say(false, table);
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "Train a recipe dense, compressed for as many steps, and compressed for as long; print the table");
  command->add_option("recipe", options->recipe, "recipe file (TOML), for example configs/demo.toml")
      ->required();
  command->add_option("--set", options->set, "override a key of the recipe for all runs: key=value")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "folder of the runs; default runs/NAME");
  command->add_flag("--json", options->json, "print the three summaries as JSON on stdout");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
