#include "step_plans.h"

#include <comera/exec/profile.h>
#include <comera/ops/implementation.h>

#include <algorithm>

namespace comera::train {
namespace {

plan::Profile profile_of(const Recipe& recipe, std::vector<std::string>* warnings) {
  const auto warn = [&](const std::string& line) { warnings->push_back(line); };
  const auto saved = exec::saved_profile(recipe.data.cache, plan::DType::float32, warn);
  return saved ? *saved : plan::default_profile();
}

}  // namespace

StepPlans::StepPlans(const Recipe& recipe)
    : automatic_(recipe.plan.mode == "auto" && recipe.train.device == "cpu" && !ops::use_reference()),
      forwards_(recipe.train.micro_batches),
      book_(automatic_ ? profile_of(recipe, &news_) : plan::default_profile()) {}

nn::LayerPlans StepPlans::find(const nn::Model& model, const BatchRows& rows) {
  nn::LayerPlans result;
  seconds_ = 0;
  if (!automatic_) return result;
  struct Layer {
    std::string name;
    format::Shape shape;
    std::int64_t rows;
  };
  std::vector<Layer> layers;
  for (const auto& [name, weight] : model.trains()) {
    const std::int64_t count = rows.of(name, model.options().head);
    if (weight.shape().kind == format::Kind::tt && !weight.shape().dead() && count > 0)
      layers.push_back({name, weight.shape(), count});
  }
  for (const Layer& layer : layers) {
    const auto alike = std::count_if(layers.begin(), layers.end(),
                                     [&](const Layer& other) { return other.shape == layer.shape; });
    if (auto plan = book_.find({layer.shape, layer.rows, alike, forwards_}))
      result[layer.name] = std::move(plan);
  }
  seconds_ = book_.take_seconds();
  return result;
}

std::vector<std::string> StepPlans::take_news() {
  std::vector<std::string> lines = std::exchange(news_, {});
  for (std::string& line : book_.take_news()) lines.push_back(std::move(line));
  return lines;
}

Json StepPlans::save(const nn::Model& model) {
  std::vector<format::Shape> shapes;
  for (const auto& [name, weight] : model.trains()) shapes.push_back(weight.shape());
  book_.keep_only(shapes);
  return book_.save();
}

}  // namespace comera::train
