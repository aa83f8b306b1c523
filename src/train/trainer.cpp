#include "rank_setup.h"
#include "step_plans.h"

#include <comera/base/error.h>
#include <comera/data/loader.h>
#include <comera/nn/factor_scope.h>
#include <comera/nn/model.h>
#include <comera/optim/adamw.h>
#include <comera/optim/schedule.h>
#include <comera/train/batch.h>
#include <comera/train/evaluate.h>
#include <comera/train/memory.h>
#include <comera/train/saved_model.h>
#include <comera/train/trainer.h>

#include <chrono>
#include <cmath>

namespace comera::train {
namespace {

constexpr std::uint64_t kMaskSite = ~std::uint64_t{0};  // apart from the model's own sites
constexpr std::int64_t kProbeSamples = 128;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

data::LoaderOptions loader_options(const Recipe& recipe, const data::Tokenizer& tokenizer) {
  return {.batch_size = recipe.train.batch_size,
          .max_length = recipe.data.max_length,
          .pad_to_max = recipe.data.pad_to_max,
          .bucket = recipe.data.bucket,
          .pad = std::max(0, tokenizer.special().pad),
          .seed = static_cast<std::uint64_t>(recipe.train.seed)};
}

optim::Schedule schedule(const Recipe& recipe) {
  return {.warm_up = static_cast<std::int64_t>(std::llround(recipe.train.warmup * recipe.train.steps)),
          .decay = optim::parse_decay(recipe.train.decay)};
}

// Groups: cores and scales have rates of their own; decay only touches dense matrices (and low-rank ones have
// none).
std::vector<optim::Group> parameter_groups(const Recipe& recipe) {
  const TrainRecipe& t = recipe.train;
  const double early =
      recipe.rank.target_parameters || recipe.rank.target_bytes || recipe.rank.target_loss > 0
          ? recipe.rank.early_end
          : 0.8;
  const double scale_rate =
      t.scale_learning_rate > 0
          ? t.scale_learning_rate
          : rank::scale_learning_rate(std::max<std::int64_t>(1, std::llround(early * t.steps)));
  return {{"cores", t.core_learning_rate > 0 ? t.core_learning_rate : t.learning_rate, 0},
          {"scales", recipe.rank.adapt ? scale_rate : t.learning_rate, 0},
          {"matrices", t.learning_rate, t.weight_decay},
          {"other", t.learning_rate, 0}};
}

std::vector<optim::Parameter> optimiser_parameters(const nn::Model& model) {
  std::vector<optim::Parameter> parameters;
  for (const auto& parameter : model.named_parameters()) {
    const std::string& name = parameter.key();
    const std::string group = name.find(".cores.") != std::string::npos    ? "cores"
                              : name.find(".scales.") != std::string::npos ? "scales"
                              : parameter.value().dim() >= 2               ? "matrices"
                                                                           : "other";
    parameters.push_back({name, parameter.value(), group});
  }
  return parameters;
}

}  // namespace

struct Trainer::State {
  Recipe recipe;
  const Task& task;
  bool overfit;
  torch::Device device;
  std::shared_ptr<nn::Model> model;
  std::unique_ptr<optim::AdamW> optimiser;
  std::unique_ptr<rank::Controller> ranks;
  std::unique_ptr<data::Loader> loader;
  std::optional<data::Batch> overfit_batch;
  std::vector<std::pair<std::string, Json>> events;
  std::int64_t steps = 0;
  StepPlans plans;

  State(const Recipe& recipe, const Task& task, bool overfit)
      : recipe(recipe), task(task), overfit(overfit), device(recipe.train.device), plans(recipe) {}

  BatchOptions batch_options() const {
    return {model->options().head, recipe.data.mask_share, task.tokenizer->special(),
            task.tokenizer->vocabulary_size(), device};
  }
  EvaluateOptions evaluate_options(std::int64_t samples) const {
    return {.batch = batch_options(), .max_length = recipe.data.max_length, .samples = samples};
  }
  double probe_loss() {
    check(task.held_out.has_value(), "[rank] this target needs held-out data: set data.validation");
    return train::evaluate(*model, *task.held_out, evaluate_options(kProbeSamples)).find("loss").value;
  }
  void note(const std::vector<rank::Event>& list) {
    for (const rank::Event& event : list) {
      Json json = rank::to_json(event);
      events.emplace_back(rank::to_string(event), std::move(json));
    }
  }
  nn::LayerPlans layer_plans(const std::vector<ModelBatch>& parts) {
    BatchRows rows;
    for (const ModelBatch& part : parts) {
      rows.samples = std::max(rows.samples, part.samples);
      rows.tokens = std::max(rows.tokens, part.input.tokens.numel());
      rows.predictions = std::max(rows.predictions, part.target_count);
    }
    nn::LayerPlans result = plans.find(*model, rows);
    if (const auto news = plans.take_news(); !news.empty())
      events.emplace_back(
          fmt::format("{} of {} tensor trains run by a plan of their own, the others in two groups",
                      result.size(), model->trains().size()),
          Json{{"kind", "plan"}, {"seconds", plans.seconds()}, {"decisions", news}});
    return result;
  }
  void values_changed() {
    for (auto& [name, weight] : model->trains()) weight.values_changed();
  }
};

Trainer::Trainer(const Recipe& recipe, const Task& task, bool overfit_batch, const io::Checkpoint* resume)
    : state_(std::make_unique<State>(recipe, task, overfit_batch)) {
  State& s = *state_;
  if (overfit_batch) s.recipe.model.dropout = s.recipe.model.attention_dropout = 0;
  check(task.train.has_value(), "[train] no training data: set data.train");
  const std::int64_t vocabulary = task.tokenizer->vocabulary_size();
  s.model = std::make_shared<nn::Model>(model_options(s.recipe, vocabulary, task.classes()),
                                        layer_rules(s.recipe), s.recipe.train.seed);
  if (resume) fill_model(*s.model, *resume);
  s.model->to(s.device);
  optim::AdamWOptions options{recipe.train.beta1, recipe.train.beta2, recipe.train.epsilon,
                              recipe.train.clip};
  s.optimiser =
      std::make_unique<optim::AdamW>(optimiser_parameters(*s.model), parameter_groups(s.recipe), options);
  s.ranks = make_controller(s.recipe, *s.model, {[state = state_.get()] { return state->probe_loss(); }});
  s.loader = std::make_unique<data::Loader>(*task.train, loader_options(s.recipe, *task.tokenizer));
  if (resume) restore(*resume);
}

Trainer::~Trainer() = default;

StepRecord Trainer::step() {
  State& s = *state_;
  const double start = now();
  reset_peak_allocated_bytes();
  if (s.overfit && !s.overfit_batch) s.overfit_batch = s.loader->next();
  const data::Batch batch = s.overfit ? *s.overfit_batch : s.loader->next();
  const auto seed = static_cast<std::uint64_t>(s.recipe.train.seed);
  const auto step = static_cast<std::uint64_t>(s.overfit ? 0 : s.steps);

  // All parts of the batch are made first: the loss of each is divided by the targets of all.
  std::vector<ModelBatch> parts;
  std::int64_t targets = 0;
  StepRecord record;
  for (std::int64_t i = 0, size = batch.size / s.recipe.train.micro_batches; i < s.recipe.train.micro_batches;
       ++i) {
    parts.push_back(make_batch(batch, i * size, size, s.batch_options(), random_key(seed, step, kMaskSite)));
    targets += parts.back().target_count;
    record.tokens += parts.back().tokens;
  }

  const auto context_of = [&](const ModelBatch& part) {
    nn::Context context;
    context.training = true;
    context.seed = seed;
    context.step = step;
    context.sample_ids = part.sample_ids;
    context.lengths = part.lengths;
    return context;
  };
  s.optimiser->zero_gradients();
  torch::Tensor loss_sum, correct;
  {
    nn::FactorScope factors(*s.model, s.layer_plans(parts));
    for (const ModelBatch& part : parts) {
      const nn::LossSum sums =
          nn::cross_entropy_sum(s.model->logits(part.input, context_of(part)), part.targets);
      (sums.loss / std::max<std::int64_t>(1, targets)).backward();
      loss_sum = loss_sum.defined() ? loss_sum + sums.loss.detach() : sums.loss.detach();
      correct = correct.defined() ? correct + sums.correct : sums.correct;
    }
    factors.pull_back();
  }
  if (s.ranks) s.ranks->before_step();
  const double factor = optim::factor(schedule(s.recipe), s.steps, s.recipe.train.steps) *
                        (s.ranks ? s.ranks->learning_rate_factor() : 1.0);
  for (const optim::Group& group : parameter_groups(s.recipe))
    s.optimiser->group(group.name).learning_rate = group.learning_rate * factor;
  const torch::Tensor norm = s.optimiser->step();

  record.loss = loss_sum.item<double>() / std::max<std::int64_t>(1, targets);
  record.accuracy = correct.item<double>() / std::max<std::int64_t>(1, targets);
  record.gradient_norm = norm.item<double>();
  if (!std::isfinite(record.loss) || !std::isfinite(record.gradient_norm)) {
    std::string culprit;
    for (const ModelBatch& part : parts)
      if (culprit.empty()) culprit = s.model->first_not_finite(part.input, context_of(part));
    fail(
        "[train] step {}: the loss is {:g} and the gradient's norm {:g}; first value that is not finite: {}. "
        "The "
        "weights were not changed by this step; lower train.learning_rate, or look at the data of this step",
        s.steps + 1, record.loss, record.gradient_norm,
        culprit.empty() ? "none when computed again" : culprit);
  }
  s.values_changed();
  ++s.steps;
  if (s.ranks)
    s.note(s.ranks->after_step({.step = s.steps,
                                .progress = static_cast<double>(s.steps) / s.recipe.train.steps,
                                .loss = record.loss},
                               *s.optimiser));

  record.step = s.steps;
  record.learning_rate = s.recipe.train.learning_rate * factor;
  const nn::ModelSize size = nn::model_size(*s.model);
  record.parameters = size.total;
  record.compression = size.compression();
  std::vector<double> middles;
  for (const auto& [name, weight] : s.model->trains())
    if (weight.shape().kind == format::Kind::tt)
      middles.push_back(weight.shape().rank(weight.shape().split() - 1));
  record.median_rank = median(middles);
  record.peak_bytes = peak_allocated_bytes();
  record.plan_seconds = s.plans.seconds();
  record.seconds = now() - start;
  return record;
}

std::int64_t Trainer::steps() const { return state_->steps; }
nn::Model& Trainer::model() { return *state_->model; }
std::vector<std::pair<std::string, Json>> Trainer::take_events() { return std::exchange(state_->events, {}); }

void Trainer::finish_ranks() {
  if (state_->ranks) state_->note(state_->ranks->finish(state_->steps, *state_->optimiser));
}

bool Trainer::meets_target() const {
  const auto& ranks = state_->ranks;
  return !ranks || ranks->target_size() == 0 || ranks->size() <= ranks->target_size();
}

Evaluation Trainer::evaluate(std::int64_t samples) {
  check(state_->task.held_out.has_value(), "[evaluate] no held-out data: set data.validation");
  return train::evaluate(*state_->model, *state_->task.held_out, state_->evaluate_options(samples));
}

io::Checkpoint Trainer::save() const {
  State& s = *state_;
  io::Checkpoint checkpoint;
  checkpoint.state["step"] = s.steps;
  const data::LoaderPosition position = s.loader->position();
  checkpoint.state["loader"] = {{"epoch", position.epoch}, {"batch", position.batch}};
  checkpoint.state["data"] = hex(s.task.train->content_hash());
  checkpoint.state["plans"] = s.plans.save(*s.model);
  checkpoint.state["held_out_data"] = s.task.held_out ? hex(s.task.held_out->content_hash()) : "";
  put_model(checkpoint, s.recipe, *s.model, *s.task.tokenizer, s.task.labels);
  const auto add = [&](const std::string& part, const weights::SavedState& state) {
    checkpoint.state[part] = state.values;
    for (const auto& [name, tensor] : state.tensors)
      checkpoint.tensors.emplace_back(part + "." + name, tensor);
  };
  add("optimiser", s.optimiser->save());
  if (s.ranks) add("ranks", s.ranks->save());
  return checkpoint;
}

void Trainer::restore(const io::Checkpoint& checkpoint) {
  State& s = *state_;
  const Json& state = checkpoint.state;
  const auto part = [&](const std::string& name) {
    check(state.contains(name), "the checkpoint has no state of '{}'", name);
    weights::SavedState saved{{}, state.at(name)};
    for (const auto& [full, tensor] : checkpoint.tensors)
      if (full.starts_with(name + ".")) saved.tensors.emplace_back(full.substr(name.size() + 1), tensor);
    return saved;
  };
  try {
    const auto same_data = [&](const char* what, const std::string& now, const std::string& then) {
      check(
          now == then,
          "the {} data is not the one of the checkpoint (content hash {} now, {} then); resume with the same "
          "files",
          what, now.empty() ? "none" : now, then.empty() ? "none" : then);
    };
    same_data("training", hex(s.task.train->content_hash()), state.at("data").get<std::string>());
    // The first checkpoints do not say.
    if (state.contains("held_out_data"))
      same_data("held-out", s.task.held_out ? hex(s.task.held_out->content_hash()) : "",
                state["held_out_data"].get<std::string>());
    check(same_tokenizer(checkpoint, *s.task.tokenizer),
          "the tokenizer is not the one of the checkpoint; resume with the same vocabulary");
    check(state.at("labels").get<std::vector<std::string>>() == s.task.labels,
          "the data gives other labels ({}) than the checkpoint has", fmt::join(s.task.labels, ", "));
    s.steps = state.at("step").get<std::int64_t>();
    s.loader->seek({state.at("loader").at("epoch").get<std::int64_t>(),
                    state.at("loader").at("batch").get<std::int64_t>()});
  } catch (const nlohmann::json::exception& error) {
    fail("the checkpoint is not one of a run: {}", error.what());
  }
  if (state.contains("plans")) s.plans.load(state["plans"]);
  check(s.steps >= 0, "the checkpoint stands at step {}", s.steps);
  s.optimiser->load(part("optimiser"));
  if (s.ranks) s.ranks->load(part("ranks"));
}

}  // namespace comera::train
