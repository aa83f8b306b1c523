#include <comera/train/layer_groups.h>

#include <algorithm>
#include <cmath>

namespace comera::train {

std::int64_t BatchRows::of(const std::string& layer, nn::Head head) const {
  // What sits on top of the encoder sees one row a prediction.
  const bool top = layer == "pooler" || layer == "transform" || layer == "head";
  if (!top) return tokens;
  return head == nn::Head::classifier ? samples : predictions;
}

BatchRows longest_batch(const Recipe& recipe) {
  BatchRows rows;
  rows.samples = recipe.train.batch_size / recipe.train.micro_batches;
  rows.tokens = rows.samples * recipe.data.max_length;
  rows.predictions =
      recipe.model.head == "classifier" ? rows.samples
      : recipe.model.head == "masked"
          ? std::max<std::int64_t>(1, std::llround(recipe.data.mask_share * static_cast<double>(rows.tokens)))
          : rows.samples * (recipe.data.max_length - 1);
  return rows;
}

std::vector<LayerGroup> layer_groups(const Recipe& recipe, const nn::Model& model) {
  std::vector<LayerGroup> groups;
  const BatchRows batch = longest_batch(recipe);
  for (const nn::LayerInfo& layer : model.layers()) {
    if (!layer.shape || layer.shape->dead()) continue;
    const std::int64_t rows = batch.of(layer.name, model.options().head);
    const auto same = [&](const LayerGroup& group) {
      return group.shape == *layer.shape && group.rows == rows;
    };
    const auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group != groups.end())
      group->names.push_back(layer.name);
    else
      groups.push_back({{layer.name}, *layer.shape, rows});
  }
  return groups;
}

}  // namespace comera::train
