#include "run_folder.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/machine.h>
#include <comera/base/text.h>
#include <comera/train/memory.h>
#include <comera/train/saved_model.h>
#include <comera/train/trainer.h>

#include <torch/version.h>

#include <cmath>
#include <deque>
#include <sstream>

namespace comera::train {
namespace {

constexpr std::size_t kEdgeSteps = 20;  // steps whose median stands for the start and the end of a run

// Keys that may differ between a run and its continuation: none of them changes a bit of the result.
bool may_differ(const std::string& line) {
  for (const char* key : {"log_every", "save_every", "evaluate_every", "evaluate_samples", "threads", "cache",
                          "python", "name"})
    if (line.rfind(std::string(key) + " = ", 0) == 0) return true;
  return false;
}

void check_same_recipe(const Recipe& recipe, const io::Checkpoint& checkpoint,
                       const std::filesystem::path& path) {
  check(checkpoint.state.contains("recipe") && checkpoint.state["recipe"].is_string(),
        "{}: not a checkpoint of a comera run", path.string());
  // Keys that were not there yet have their defaults.
  const Recipe saved = parse_recipe(checkpoint.state["recipe"].get<std::string>(), path.string());
  std::istringstream now(to_toml(recipe)), then(to_toml(saved));
  for (std::string a, b; true;) {
    const bool more_now = static_cast<bool>(std::getline(now, a)),
               more_then = static_cast<bool>(std::getline(then, b));
    check(more_now == more_then && (!more_now || a == b || (may_differ(a) && may_differ(b))),
          "{}: the recipe has changed since: '{}' now, '{}' then; resume with the same recipe, or give "
          "another --out",
          path.string(), more_now ? a : "end", more_then ? b : "end");
    if (!more_now) return;
  }
}

// What the first and the last steps of a run cost: medians, the first kept in checkpoints for a resumed run.
class Edges {
 public:
  explicit Edges(const Json& first) : kept_(first) {}
  void add(const StepRecord& record) {
    // The very first step also pays for the first touch of everything.
    if (record.step > 1 && first_.size() < kEdgeSteps) first_.push_back(record);
    last_.push_back(record);
    if (last_.size() > kEdgeSteps) last_.pop_front();
  }
  /// {seconds, bytes} of a step at the start, and at the end.
  Json first() const { return kept_.is_null() ? medians(first_.empty() ? last_ : first_) : kept_; }
  Json last() const { return medians(last_); }

 private:
  static Json medians(const std::deque<StepRecord>& records) {
    std::vector<double> seconds, bytes;
    for (const StepRecord& r : records)
      seconds.push_back(r.seconds), bytes.push_back(static_cast<double>(r.peak_bytes));
    return {{"seconds", median(seconds)}, {"bytes", median(bytes)}};
  }
  Json kept_;
  std::deque<StepRecord> first_, last_;
};

// What a run keeps besides the trainer's state.
struct Progress {
  Json best;         // {name, value, step, samples}, or null
  Json first_steps;  // of Edges, or null
  double train_seconds = 0;
};

Progress progress_of(const io::Checkpoint& checkpoint) {
  const Json& state = checkpoint.state;
  Progress progress{state.value("best", Json()), state.value("first_steps", Json()),
                    state.value("train_seconds", 0.0)};
  for (const auto& [json, keys] :
       {std::pair{&progress.best, std::vector{"value"}}, {&progress.first_steps, {"seconds", "bytes"}}})
    for (const char* key : keys)
      if (!json->is_null()) json->at(key).get<double>();
  return progress;
}

// Whatever goes wrong in `make` is said of the file, when there is one.
template <class Make>
auto naming(const std::filesystem::path* file, Make&& make) {
  try {
    return make();
  } catch (const c10::Error& error) {
    if (!file) throw;
    fail("{}: cannot go on from it: {}", file->string(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (!file) throw;
    fail("{}: cannot go on from it: {}", file->string(), error.what());
  }
}

Json metric_json(const Evaluation& evaluation) {
  return {{"name", evaluation.main().name}, {"value", evaluation.main().value}};
}

}  // namespace

Json run_training(const Recipe& recipe, const Task& task, const RunOptions& options) {
  const std::filesystem::path last = options.out / "last.ckpt", best = options.out / "best.ckpt";
  check(!(options.resume && options.overfit_batch), "[train] a run on one batch cannot be resumed");
  std::optional<io::Checkpoint> resume;
  if (options.resume) {
    resume = io::load_checkpoint(last);
    check_same_recipe(recipe, *resume, last);
    check(!naming(&last, [&] { return resume->state.value("overfit_batch", false); }),
          "{}: is of a run on one batch, which cannot be resumed", last.string());
  }
  const RunFolder folder(options.out);
  return_free_memory();  // preparing data took more than training will
  reset_peak_resident_bytes();
  Trainer trainer = naming(resume ? &last : nullptr, [&] {
    return Trainer(recipe, task, options.overfit_batch, resume ? &*resume : nullptr);
  });
  Progress progress =
      naming(resume ? &last : nullptr, [&] { return resume ? progress_of(*resume) : Progress(); });
  Edges edges(progress.first_steps);
  resume.reset();
  if (const auto path = options.out / "summary.json";
      options.resume && trainer.steps() >= recipe.train.steps && std::filesystem::exists(path)) {
    options.say(fmt::format("the run in {} has done its {} steps", options.out.string(), trainer.steps()));
    return read_json(path);
  }
  if (!options.resume && folder.set_aside())
    options.say(fmt::format("note: the earlier run in {0} is now in {0}/previous", options.out.string()));

  RunLog log(options.out, trainer.steps());
  write_file(options.out / "recipe.toml", to_toml(recipe));
  ProgressLine lines(recipe.train.steps);
  bool interrupted = false, plans_told = false;
  std::optional<Evaluation> evaluation;
  std::int64_t evaluated_at = -1;

  const auto save = [&](const std::filesystem::path& path) {
    io::Checkpoint checkpoint = trainer.save();
    checkpoint.state["best"] = progress.best;
    checkpoint.state["overfit_batch"] = options.overfit_batch;
    checkpoint.state["train_seconds"] = progress.train_seconds;
    checkpoint.state["first_steps"] = edges.first();
    io::save_checkpoint(path, checkpoint);
  };
  const auto evaluate = [&](std::int64_t samples, bool decides) {
    evaluation = trainer.evaluate(samples);
    evaluated_at = trainer.steps();
    const Metric& main = evaluation->main();
    log.event(trainer.steps(), "evaluation", evaluation->to_json());
    options.say(fmt::format("step {}  held-out {} {:.4f} (baseline {:.4f}), loss {:.4f} over {} predictions",
                            trainer.steps(), main.name, main.value, main.baseline,
                            evaluation->find("loss").value, evaluation->samples));
    // What is not finite is no best, and no JSON either.
    const bool better = std::isfinite(main.value) && std::isfinite(evaluation->find("loss").value) &&
                        (progress.best.is_null() ||
                         (main.higher_is_better ? main.value > progress.best["value"].get<double>()
                                                : main.value < progress.best["value"].get<double>()));
    if (!decides || !better || !trainer.meets_target()) return;
    progress.best = {{"name", main.name},
                     {"value", main.value},
                     {"step", trainer.steps()},
                     {"samples", evaluation->samples}};
    save(best);
  };
  const auto say_events = [&] {
    for (const auto& [text, json] : trainer.take_events()) {
      // Every cut and every new length is planned for; people see the first.
      const bool plan = json.value("kind", "") == "plan";
      if (!plan || !std::exchange(plans_told, true)) options.say(text);
      log.event(trainer.steps(), json.value("kind", "rank"), json);
    }
  };

  while (trainer.steps() < recipe.train.steps) {
    if (options.stop && options.stop->load()) {
      interrupted = true;
      break;
    }
    StepRecord record;
    try {
      record = trainer.step();
    } catch (const Error&) {
      // The step changed nothing: what was learned before it is kept.
      if (trainer.steps() > 0) save(last);
      throw;
    }
    progress.train_seconds += record.seconds;
    edges.add(record);
    log.step(record);
    const std::string line = lines.add(record);
    if (record.step % recipe.train.log_every == 0 || record.step == recipe.train.steps) options.say(line);
    say_events();
    const bool end = record.step == recipe.train.steps;
    if (recipe.train.evaluate_every && record.step % recipe.train.evaluate_every == 0 && !end &&
        task.held_out)
      evaluate(recipe.train.evaluate_samples, true);
    if (recipe.train.save_every && record.step % recipe.train.save_every == 0 && !end) save(last);
  }
  save(last);
  if (!interrupted && task.held_out && evaluated_at != trainer.steps()) {
    // Values over different samples do not compare: the best is found on those that were used while training.
    const bool part = recipe.train.evaluate_every && recipe.train.evaluate_samples &&
                      recipe.train.evaluate_samples < task.held_out->size();
    if (part) evaluate(recipe.train.evaluate_samples, true);
    evaluate(0, !part);
    save(last);
    const double loss = evaluation->find("loss").value;
    check(std::isfinite(loss), "[train] the held-out loss is {:g} after {} steps; lower train.learning_rate",
          loss, trainer.steps());
  }
  if (interrupted)
    options.say(fmt::format("stopped at step {}/{}; `comera train ... --out {} --resume` goes on",
                            trainer.steps(), recipe.train.steps, options.out.string()));

  const nn::ModelSize size = nn::model_size(trainer.model());
  Json ranks = Json::object();
  for (const auto& [name, weight] : trainer.model().trains()) ranks[name] = weight.shape().ranks;
  const Json first = edges.first(), last_steps = edges.last();
  const std::uint64_t peak = peak_resident_bytes();
  Json summary{
      {"recipe", recipe.name},
      {"method", recipe.train.method},
      {"steps", trainer.steps()},
      {"interrupted", interrupted},
      {"metric", evaluation ? metric_json(*evaluation) : Json()},
      {"baseline_metric", evaluation ? Json(evaluation->main().baseline) : Json()},
      {"evaluation", evaluation ? evaluation->to_json() : Json()},
      {"best", progress.best},
      {"parameters", parameters_json(size)},
      {"compression", size.compression()},
      {"step_seconds", {{"first", first["seconds"]}, {"last", last_steps["seconds"]}}},
      {"train_seconds", progress.train_seconds},
      {"peak_bytes", peak > options.idle_bytes ? peak - options.idle_bytes : 0},
      {"step_peak_bytes", {{"first", first["bytes"]}, {"last", last_steps["bytes"]}}},
      {"ranks", ranks},
      {"data",
       {{"train_samples", task.train->size()},
        {"held_out_samples", task.held_out ? task.held_out->size() : 0},
        {"train_hash", hex(task.train->content_hash())},
        {"held_out_hash", task.held_out ? hex(task.held_out->content_hash()) : ""}}},
      {"machine",
       {{"processor", cpu_name()}, {"threads", torch::get_num_threads()}, {"torch", TORCH_VERSION}}}};
  write_file(options.out / "summary.json", summary.dump(2) + "\n");
  return summary;
}

}  // namespace comera::train
