// Rank adaptation as a recipe asks for it.
#pragma once

#include <comera/nn/model.h>
#include <comera/rank/controller.h>
#include <comera/train/recipe.h>

#include <memory>

namespace comera::train {

/// None when nothing is to be adapted. Throws Error for a target that cannot be met.
std::unique_ptr<rank::Controller> make_controller(const Recipe& recipe, const nn::Model& model,
                                                  rank::Probe probe);

}  // namespace comera::train
