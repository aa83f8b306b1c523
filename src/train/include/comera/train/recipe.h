// A recipe: everything that decides a run, as one plain struct. Read from TOML; each key is declared once, in
// recipe_fields.h, with its meaning and unit, for reading, `--set`, `--help` and the resolved copy beside a
// run.
#pragma once

#include <comera/nn/layer_format.h>
#include <comera/nn/model.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::train {

struct ModelRecipe {
  std::string head = "classifier";
  std::int64_t layers = 6, width = 768, heads = 12, ffn = 3072, positions = 512, segments = 2;
  std::string norm = "post";
  double norm_epsilon = 1e-9, dropout = 0.1, attention_dropout = 0.1, table_std = 0.02;
  std::string pooling = "first";
  bool pooler = true, zero_residual = false;
};

struct DataRecipe {
  std::string source = "python";
  std::vector<std::string> train, validation;
  std::vector<std::string> text;
  std::string label;
  bool header = true;
  std::vector<std::string> labels;
  std::int64_t max_length = 128;
  bool pad_to_max = false, bucket = true;
  std::string tokenizer = "sentencepiece", vocabulary;
  bool lowercase = true;
  std::int64_t vocabulary_size = 8192;
  double mask_share = 0.15;
  std::string python, cache = ".cache/comera";
};

struct TrainRecipe {
  std::string method = "compressed";
  std::int64_t steps = 1000, batch_size = 32, micro_batches = 1, seed = 1;
  double learning_rate = 1e-3, core_learning_rate = 0, scale_learning_rate = 0, weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, clip = 1.0;
  double warmup = 0.05;
  std::string decay = "cosine";
  std::int64_t evaluate_every = 0, evaluate_samples = 0, save_every = 0, log_every = 10;
  std::int64_t threads = 0;
  std::string device = "cpu";
};

struct RankRecipe {
  bool adapt = true;
  std::string rule = "count_prices";
  double gamma = 0.1, early_end = 0.6;
  std::int64_t cut_every = 50, target_parameters = 0, target_bytes = 0;
  double target_loss = 0;
  bool may_die = false;
};

struct PlanRecipe {
  std::string mode = "auto";
};

struct Recipe {
  std::string name;
  ModelRecipe model;
  std::vector<nn::FormatRule> layers;
  DataRecipe data;
  TrainRecipe train;
  RankRecipe rank;
  PlanRecipe plan;
};

/// Reads TOML and applies `overrides` ("model.layers=2", values as in TOML; a bare word is text). Every
/// unknown key, wrong type or impossible value is an Error `file:line: what`, with the nearest known name.
Recipe read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
Recipe parse_recipe(std::string_view text, const std::string& source,
                    const std::vector<std::string>& overrides = {});

/// The resolved recipe as TOML that read_recipe accepts and that gives an equal recipe.
std::string to_toml(const Recipe& recipe);

/// What `--help` shows: key, default, meaning with unit.
struct FieldHelp {
  std::string key, fallback, meaning;
};
std::vector<FieldHelp> recipe_help();

/// Options of the model the recipe describes.
nn::ModelOptions model_options(const Recipe& recipe, std::int64_t vocabulary, std::int64_t labels);
/// Its layer rules; empty for method "dense".
std::vector<nn::FormatRule> layer_rules(const Recipe& recipe);

}  // namespace comera::train
