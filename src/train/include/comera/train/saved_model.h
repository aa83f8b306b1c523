// A trained model read back from a checkpoint, for evaluation, prediction, export and going on.
#pragma once

#include <comera/data/tokenizer.h>
#include <comera/io/checkpoint.h>
#include <comera/nn/model.h>
#include <comera/train/recipe.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace comera::train {

struct SavedModel {
  Recipe recipe;
  std::shared_ptr<nn::Model> model;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<std::string> labels;
  io::Checkpoint checkpoint;  ///< the rest: state and optimiser tensors
};

/// Throws Error `path: what` for a file that is no checkpoint of a comera run, or whose tensors do not fit
/// its recipe.
SavedModel load_model(const std::filesystem::path& path);

/// Copies the weights of a checkpoint, ranks included, into a model of the same recipe. Throws Error for what
/// does not fit.
void fill_model(nn::Model& model, const io::Checkpoint& checkpoint);

/// Whether a checkpoint was written with this tokenizer. Throws for one that names none.
bool same_tokenizer(const io::Checkpoint& checkpoint, const data::Tokenizer& tokenizer);

/// What load_model needs, put into a checkpoint.
void put_model(io::Checkpoint& checkpoint, const Recipe& recipe, const nn::Model& model,
               const data::Tokenizer& tokenizer, const std::vector<std::string>& labels);

}  // namespace comera::train
