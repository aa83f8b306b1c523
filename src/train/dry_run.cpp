#include "rank_setup.h"
#include "step_time.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/exec/profile.h>
#include <comera/train/task.h>
#include <comera/train/trainer.h>

namespace comera::train {
namespace {

// Values an encoder saves for its backward, per token, and what the backward needs beside them at its widest
// place. Per layer: the inputs of query/key/value, their outputs, the mixed values, the two norms' inputs and
// outputs, the wide activation before and after GELU, and X A of every factored layer.
double activation_bytes(const Recipe& recipe, const nn::Model& model) {
  const ModelRecipe& m = recipe.model;
  double latents = 0;
  for (const auto& [name, weight] : model.trains())
    if (name.starts_with("encoder.") && weight.shape().kind == format::Kind::tt)
      latents += static_cast<double>(weight.shape().rank(weight.shape().split() - 1));
  const double tokens =
      static_cast<double>(recipe.train.batch_size / recipe.train.micro_batches * recipe.data.max_length);
  const double saved = m.layers * (8.0 * m.width + 2.0 * m.ffn) + latents + 3.0 * m.width;
  const double widest = 2.0 * m.ffn + 2.0 * m.width;
  return 4.0 * tokens * (saved + widest);
}

}  // namespace

Json dry_run(const Recipe& recipe, std::string* table) {
  const bool classifier = recipe.model.head == "classifier";
  const bool labels_known = !classifier || !recipe.data.labels.empty();
  const std::int64_t labels = expected_labels(recipe);
  const std::int64_t vocabulary = expected_vocabulary(recipe);
  const nn::Model model(model_options(recipe, vocabulary, labels), layer_rules(recipe), recipe.train.seed);
  const nn::ModelSize size = nn::model_size(model);
  // Values, gradients and two moments in fp32.
  const double state_bytes = 16.0 * static_cast<double>(size.total);
  const double activations = activation_bytes(recipe, model);
  std::string warning;
  const auto measured = exec::saved_profile(recipe.data.cache, plan::DType::float32,
                                            [&](const std::string& line) { warning = line + "\n"; });
  const StepTime time = predict_step(recipe, model, measured ? *measured : plan::default_profile());

  std::vector<std::string> notes;
  if (!labels_known) notes.push_back(fmt::format("{} classes are assumed until the data is read", labels));
  if (recipe.data.tokenizer == "sentencepiece")
    notes.push_back(fmt::format("the tokenizer is still to be trained; {} tokens are assumed", vocabulary));
  std::vector<std::string> wrong = problems(recipe);
  try {
    make_controller(recipe, model, {[] { return 0.0; }});
  } catch (const Error& error) {
    wrong.push_back(error.what());
  }
  if (table) {
    *table = layer_table(model);
    *table += fmt::format(
        "parameters {} = {} in cores + {} rank scales + {} others; dense {}; compression {:.1f}x\n"
        "memory estimate: {} for parameters, gradients and moments, {} for activations at {} x {} tokens\n",
        size.total, size.cores, size.rank_scales, size.other, size.dense_total, size.compression(),
        format_bytes(state_bytes), format_bytes(activations),
        recipe.train.batch_size / recipe.train.micro_batches, recipe.data.max_length);
    *table += fmt::format(
        "{}predicted {:.3f} s a step: linear layers {:.3f}, tables {:.3f}, attention {:.3f}, element by "
        "element "
        "{:.3f}, optimiser {:.3f}{}\n",
        warning, time.total(), time.linear, time.tables, time.attention, time.elementwise, time.optimiser,
        measured ? "" : "; on a usual machine: `comera doctor --profile` measures this one");
    for (const std::string& note : notes) *table += "note: " + note + "\n";
    for (const std::string& text : wrong) *table += "training would stop at: " + text + "\n";
  }
  return {{"recipe", recipe.name},
          {"parameters", parameters_json(size)},
          {"compression", size.compression()},
          {"layers", layers_json(model)},
          {"predicted_step_seconds", time.total()},
          {"predicted_step", to_json(time)},
          {"profile_measured", measured.has_value()},
          {"memory_estimate", {{"state_bytes", state_bytes}, {"activation_bytes", activations}}},
          {"notes", notes},
          {"problems", wrong}};
}

}  // namespace comera::train
