#include "step_time.h"

#include <comera/exec/plan_book.h>
#include <comera/plan/lookup.h>
#include <comera/train/layer_groups.h>

namespace comera::train {
namespace {

constexpr double kElement = 4;         // bytes
constexpr double kUpdateTouches = 10;  // of each parameter: value, gradient and two moments, norm and zeroing
constexpr double kStartsALayer = 60;   // operations of an encoder layer, forward and backward
constexpr double kAttentionProducts = 7;

// Entries a second of a part of the model; without a measurement by the bytes it reads and writes.
double rate(const plan::Profile& profile, const std::string& name, double touches) {
  const auto found = profile.rates.find(name);
  return found != profile.rates.end() ? found->second
                                      : profile.rates.at("elementwise") / (kElement * touches);
}

double lookup_seconds(const LayerGroup& group, const plan::Profile& profile) {
  plan::LookupRequest request{.table = group.shape, .rows = group.rows};
  request.dtype = profile.dtype;
  return plan::plan_lookup(request, profile).predicted_seconds;
}

// Of one micro-batch; factors that are built once serve all of them.
double linear_seconds(const Recipe& recipe, const LayerGroup& group, const plan::Profile& profile) {
  exec::PlanBook book(profile);
  const exec::LayerUse use{group.shape, group.rows, static_cast<std::int64_t>(group.names.size()),
                           recipe.train.micro_batches};
  const exec::SharedPlan plan = recipe.plan.mode == "auto" ? book.find(use) : nullptr;
  const double each = plan ? plan->predicted_seconds : exec::two_groups_seconds(use, profile);
  return each * static_cast<double>(group.names.size());
}

// Forward and both gradients.
double dense_seconds(double rows, double in, double out, const plan::PredictedTime& time) {
  const auto one = [&](double m, double k, double n) {
    return time.cost({1, m, k, n, m * k + k * n + m * n});
  };
  return one(rows, in, out) + one(rows, out, in) + one(in, rows, out);
}

}  // namespace

StepTime predict_step(const Recipe& recipe, const nn::Model& model, const plan::Profile& profile) {
  const BatchRows rows = longest_batch(recipe);
  const plan::PredictedTime time(profile, profile.dtype);
  const auto tokens = static_cast<double>(rows.tokens), width = static_cast<double>(recipe.model.width),
             ffn = static_cast<double>(recipe.model.ffn),
             length = static_cast<double>(recipe.data.max_length),
             layers = static_cast<double>(recipe.model.layers);
  const double copy = profile.rates.at("elementwise");
  StepTime result;
  for (const LayerGroup& group : layer_groups(recipe, model)) {
    if (group.shape.kind == format::Kind::ttm)
      result.tables += lookup_seconds(group, profile);
    else
      result.linear += linear_seconds(recipe, group, profile);
  }
  for (const nn::LayerInfo& layer : model.layers()) {
    if (layer.shape || layer.name == "embedding.word") continue;
    const double in = layer.name.ends_with("ffn.down") ? ffn : width;
    const double out = static_cast<double>(layer.dense_parameters) / (in + 1);  // with its bias
    result.linear +=
        dense_seconds(static_cast<double>(rows.of(layer.name, model.options().head)), in, out, time);
  }

  const char* suffix = recipe.model.attention_dropout > 0 ? "_dropout" : "";
  result.attention = layers * kAttentionProducts * tokens * length * width /
                     rate(profile, fmt::format("attention{}", suffix), 2);
  const double norms = 2 * layers + 1;
  suffix = recipe.model.dropout > 0 ? "_dropout" : "";
  result.elementwise =
      norms * tokens * width / rate(profile, "layer_norm", 8) +
      layers * tokens * ffn / rate(profile, "gelu", 5) +
      (2 * layers + 1) * tokens * width / rate(profile, fmt::format("residual{}", suffix), 6) +
      // The gradients of q, k, v and of the residual meet: three sums.
      layers * 3 * 3 * kElement * tokens * width / copy + layers * kStartsALayer * profile.start_seconds;
  const auto parts = static_cast<double>(recipe.train.micro_batches);
  result.linear *= parts, result.tables *= parts, result.attention *= parts, result.elementwise *= parts;
  result.optimiser = kUpdateTouches * kElement * static_cast<double>(nn::model_size(model).total) / copy;
  return result;
}

Json to_json(const StepTime& time) {
  return {{"linear", time.linear},
          {"tables", time.tables},
          {"attention", time.attention},
          {"elementwise", time.elementwise},
          {"optimiser", time.optimiser}};
}

}  // namespace comera::train
