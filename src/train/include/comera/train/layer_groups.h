// The compressed layers of a recipe's model as the planner sees them: geometry and rows of a micro-batch.
#pragma once

#include <comera/nn/model.h>
#include <comera/train/recipe.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::train {

/// Layers of one geometry that see as many rows.
struct LayerGroup {
  std::vector<std::string> names;
  format::Shape shape;
  std::int64_t rows = 0;  ///< of X in one micro-batch; of a table: looked up
};

/// Rows that the layers of a model get in one micro-batch.
struct BatchRows {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;       ///< samples * padded length
  std::int64_t predictions = 0;  ///< of the head
  std::int64_t of(const std::string& layer, nn::Head head) const;
};

/// Those of a recipe when all samples have the longest length.
BatchRows longest_batch(const Recipe& recipe);

/// TT layers and TTM tables in the order of the forward, switched-off ones left out.
std::vector<LayerGroup> layer_groups(const Recipe& recipe, const nn::Model& model);

}  // namespace comera::train
