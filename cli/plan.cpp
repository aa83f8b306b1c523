#include "command.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/exec/profile.h>
#include <comera/plan/advisor.h>
#include <comera/plan/lookup.h>
#include <comera/plan/plan.h>
#include <comera/train/layer_groups.h>
#include <comera/train/task.h>

#include <charconv>
#include <memory>

namespace comera::cli {
namespace {

struct Options {
  std::string recipe, in, out, ranks, svg, memory_limit, parameters;
  std::vector<std::string> set;
  std::string objective = "time", dtype = "float32", results = "all", cache = ".cache/comera";
  std::int64_t tokens = 4096, threads = 0, in_width = 0, out_width = 0;
  double microseconds = 0;
  bool advise = false, json = false;
};

std::vector<std::int64_t> parse_list(const char* option, const std::string& text) {
  std::vector<std::int64_t> list;
  for (const char* at = text.data(); true;) {
    const char* last = text.data() + text.size();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(at, last, value);
    check(error == std::errc{} && (end == last || *end == ','),
          "[plan] {} {}: write whole numbers with commas, for example {} 12,8,8", option, text, option);
    list.push_back(value);
    if (end == last) return list;
    at = end + 1;
  }
}

// "64MB", "64M" or "64000000".
std::int64_t parse_bytes(const std::string& text) {
  std::string count = text;
  if (!count.empty() && count.back() == 'B') count.pop_back();
  while (!count.empty() && count.back() == ' ') count.pop_back();
  try {
    const std::int64_t bytes = parse_count(count);
    if (bytes >= 1) return bytes;
  } catch (const Error&) {
  }
  fail("[plan] --memory-limit {}: write bytes, for example 64MB", text);
}

plan::Results parse_results(const std::string& name) {
  if (name == "all") return plan::Results::all;
  if (name == "without_input") return plan::Results::without_input;
  check(name == "forward", "[plan] --results {}: use all, without_input or forward", name);
  return plan::Results::forward;
}

struct Machine {
  plan::Profile profile;
  bool measured = false;
  Json to_json() const {
    return {{"measured", measured}, {"machine", profile.machine}, {"threads", profile.threads}};
  }
  std::string note() const {
    return measured ? fmt::format("times from the measured profile of {}, {} threads", profile.machine,
                                  profile.threads)
                    : "times from a profile of a usual machine, only their ratios mean something; `comera "
                      "doctor --profile` measures this one";
  }
};

Machine machine_of(const Options& options) {
  const plan::DType dtype = plan::parse_dtype(options.dtype);
  const auto warn = [&](const std::string& line) { say(true, line); };
  if (auto saved = exec::saved_profile(options.cache, dtype, warn)) return {std::move(*saved), true};
  return {plan::default_profile(dtype), false};
}

void draw(const Options& options, const plan::Plan& plan) {
  if (options.svg.empty()) return;
  write_file(options.svg, plan::draw_svg(plan));
  say(options.json, fmt::format("the tree is drawn in {}", options.svg));
}

// A plan beside its alternatives, and what a dense layer would gain.
Json plan_json(const plan::Plan& plan, const plan::NamedPlans& others) {
  Json json = plan::to_json(plan, others);
  for (const auto& [name, other] : others)
    if (name == "dense") json["dense_speed_up"] = plan.predicted_seconds / other.predicted_seconds;
  return json;
}

plan::Request request_of(const Options& options, const format::Shape& shape, std::int64_t tokens) {
  plan::Request request{{shape}, tokens};
  request.results = parse_results(options.results);
  request.dtype = plan::parse_dtype(options.dtype);
  request.goal = plan::parse_goal(options.objective);
  if (!options.memory_limit.empty()) request.memory_limit = parse_bytes(options.memory_limit);
  return request;
}

int plan_layer(const Options& options, const Machine& machine) {
  check(!options.in.empty() && !options.out.empty() && !options.ranks.empty(),
        "[plan] give a recipe, or --in, --out and --ranks of a layer, for example --in 12,8,8 --out 8,8,12 "
        "--ranks 30");
  const format::Shape shape = format::tt(parse_list("--in", options.in), parse_list("--out", options.out),
                                         parse_list("--ranks", options.ranks));
  const plan::Request request = request_of(options, shape, options.tokens);
  const plan::Plan plan = plan::make_plan(request, machine.profile);
  const plan::NamedPlans others = plan::alternatives(request, machine.profile);
  draw(options, plan);
  if (options.json) {
    Json json = plan_json(plan, others);
    json["profile"] = machine.to_json();
    print_json(json);
    return 0;
  }
  say(false, plan::to_string(plan, others) + machine.note());
  return 0;
}

int plan_recipe(const Options& options, const Machine& machine) {
  const train::Recipe recipe = train::read_recipe(options.recipe, options.set);
  const nn::Model model(
      train::model_options(recipe, train::expected_vocabulary(recipe), train::expected_labels(recipe)),
      train::layer_rules(recipe), recipe.train.seed);
  Json layers = Json::array(), tables = Json::array();
  std::string text;
  double seconds = 0, dense_seconds = 0;
  for (const train::LayerGroup& group : train::layer_groups(recipe, model)) {
    const auto count = static_cast<double>(group.names.size());
    std::string title = fmt::format("{}", group.names.front());
    if (group.names.size() > 1) title += fmt::format(" and {} like it", group.names.size() - 1);
    if (group.shape.kind == format::Kind::ttm) {
      plan::LookupRequest request{.table = group.shape, .rows = group.rows};
      request.dtype = machine.profile.dtype;
      request.goal = plan::parse_goal(options.objective);
      const plan::LookupPlan plan = plan::plan_lookup(request, machine.profile);
      Json json = plan::to_json(plan);
      json["names"] = group.names;
      json["rows"] = group.rows;
      tables.push_back(std::move(json));
      text += fmt::format("== {}: {}, {} rows looked up\n{}\n", title, format::to_string(group.shape),
                          group.rows, plan::to_string(plan));
      continue;
    }
    const plan::Request request = request_of(options, group.shape, group.rows);
    const plan::Plan plan = plan::make_plan(request, machine.profile);
    const plan::NamedPlans others = plan::alternatives(request, machine.profile);
    seconds += count * plan.predicted_seconds;
    for (const auto& [name, other] : others)
      if (name == "dense") dense_seconds += count * other.predicted_seconds;
    Json json = plan_json(plan, others);
    json["names"] = group.names;
    layers.push_back(std::move(json));
    text += fmt::format("== {}\n{}\n", title, plan::to_string(plan, others));
  }
  check(!layers.empty() || !tables.empty(), "[plan] {}: has no compressed layer to plan", options.recipe);
  if (options.json) {
    print_json({{"recipe", recipe.name},
                {"layers", layers},
                {"tables", tables},
                {"predicted_seconds", seconds},
                {"dense_predicted_seconds", dense_seconds},
                {"profile", machine.to_json()}});
    return 0;
  }
  text += fmt::format("all linear layers above, one micro-batch: {:.1f} ms predicted, dense {:.1f} ms\n",
                      1e3 * seconds, 1e3 * dense_seconds);
  say(false, text + machine.note());
  return 0;
}

int advise(const Options& options, const Machine& machine) {
  plan::AdvisorRequest request{options.in_width, options.out_width, options.tokens};
  if (!options.parameters.empty()) request.parameters = parse_count(options.parameters);
  request.seconds = options.microseconds / 1e6;
  request.dtype = machine.profile.dtype;
  const auto suggestions = plan::advise(request, machine.profile);
  if (options.json) {
    print_json({{"suggestions", plan::to_json(suggestions)}, {"measured_profile", machine.measured}});
    return 0;
  }
  say(false,
      fmt::format("{} -> {}, {} tokens: none of these is beaten in size, time and rank at once\n{}{}",
                  request.in, request.out, request.tokens, plan::to_string(suggestions), machine.note()));
  return 0;
}

int run(const Options& options) {
  set_threads(options.threads);
  const Machine machine = machine_of(options);
  if (options.advise) return advise(options, machine);
  if (options.recipe.empty()) return plan_layer(options, machine);
  check(options.svg.empty() && options.in.empty() && options.out.empty() && options.ranks.empty(),
        "[plan] a recipe has its own layers; leave out --in, --out, --ranks and --svg");
  return plan_recipe(options, machine);
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show the best order of contractions for a layer or all layers of a recipe, and what else costs");
  command->add_option("recipe", options->recipe,
                      "recipe file (TOML); or describe a layer with --in and --out");
  command->add_option("--set", options->set, "override a key of the recipe: key=value")
      ->allow_extra_args(false);
  command->add_option("--in", options->in, "digits of the input width, for example 12,8,8")->group("Layer");
  command->add_option("--out", options->out, "digits of the output width, for example 8,8,12")
      ->group("Layer");
  command->add_option("--ranks", options->ranks, "one number, the inner ranks, or all with the borders 1")
      ->group("Layer");
  command->add_option("--tokens", options->tokens, "rows of the input")
      ->capture_default_str()
      ->group("Layer");
  command->add_option("--results", options->results, "all, without_input (no input gradient) or forward")
      ->capture_default_str()
      ->group("Layer");
  command->add_option("--svg", options->svg, "file to draw the tree in")->group("Layer");
  command->add_option("--objective", options->objective, "time, multiply_adds, bytes or memory")
      ->capture_default_str();
  command->add_option("--memory-limit", options->memory_limit,
                      "bytes that a plan's peak may not pass, for example 64MB");
  command->add_option("--dtype", options->dtype, "float32, float64, bfloat16 or float16")
      ->capture_default_str();
  command->add_flag("--advise", options->advise, "propose digits and ranks for a width under a budget")
      ->group("Advice");
  command->add_option("--in-width", options->in_width, "input width")->group("Advice");
  command->add_option("--out-width", options->out_width, "output width")->group("Advice");
  command->add_option("--parameters", options->parameters, "most cores and scales, for example 20k")
      ->group("Advice");
  command->add_option("--microseconds", options->microseconds, "longest predicted forward and backward")
      ->group("Advice");
  command->add_option("--cache", options->cache, "folder with the machine's profile (data.cache)")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; 0 = all available")->capture_default_str();
  command->add_flag("--json", options->json, "print as JSON on stdout");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
