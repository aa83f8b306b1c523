// What a step of a recipe's model should take: contractions by their plans, the rest by measured rates.
#pragma once

#include <comera/base/json.h>
#include <comera/nn/model.h>
#include <comera/plan/profile.h>
#include <comera/train/recipe.h>

namespace comera::train {

/// Seconds of one optimiser step whose samples all have the longest length, by part.
struct StepTime {
  double linear = 0;       ///< linear layers, compressed and dense
  double tables = 0;       ///< look-ups and their gradients
  double attention = 0;    ///< between q, k, v and the mixed values
  double elementwise = 0;  ///< norms, GELU, residuals, dropout
  double optimiser = 0;
  double total() const { return linear + tables + attention + elementwise + optimiser; }
};

StepTime predict_step(const Recipe& recipe, const nn::Model& model, const plan::Profile& profile);
Json to_json(const StepTime& time);

}  // namespace comera::train
