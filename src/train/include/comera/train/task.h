// The data side of a run: tokenizer, prepared training and held-out samples, label names.
#pragma once

#include <comera/data/dataset.h>
#include <comera/data/tokenizer.h>
#include <comera/train/recipe.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace comera::train {

struct Task {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::optional<data::Dataset> train, held_out;
  std::vector<std::string> labels;  ///< class names; empty for token heads
  std::vector<std::string> notes;   ///< lines people should see: sizes, baseline, rows left out

  std::int64_t classes() const { return static_cast<std::int64_t>(labels.size()); }
};

using Say = std::function<void(const std::string&)>;

/// Tokens of the vocabulary file, or what the recipe asks of a tokenizer that is still to be trained.
std::int64_t expected_vocabulary(const Recipe& recipe);

/// Classes of a classifier that the recipe names, or an assumption until the data is read.
std::int64_t expected_labels(const Recipe& recipe);

/// Throws Error for what can be known before any data is read: a source that does not fit the head, files
/// that cannot be opened, a device that is not there, a model that cannot be.
void check_task(const Recipe& recipe);
/// The same for people who only look: every problem, as one line each.
std::vector<std::string> problems(const Recipe& recipe);

/// Whether a sample is a pair of texts.
bool takes_pairs(const Recipe& recipe);

/// Prepares (or finds in the cache) what the recipe's data section names. `say` gets progress lines.
Task make_task(const Recipe& recipe, const Say& say);

/// Only held-out data, read with the tokenizer and labels of a trained model. `files` replaces
/// data.validation unless empty.
Task make_evaluation_task(const Recipe& recipe, std::shared_ptr<const data::Tokenizer> tokenizer,
                          const std::vector<std::string>& labels, const std::vector<std::string>& files,
                          const Say& say);

/// A path of a recipe: "$NAME/rest" starts at the folder in the environment variable NAME; COMERA_DATA is
/// ../shared/data when it is not set.
std::filesystem::path expand_path(const std::string& path);

}  // namespace comera::train
