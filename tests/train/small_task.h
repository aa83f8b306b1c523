// A task small enough to train in a test: the label is which of three words occurs most.
#pragma once

#include "test_data.h"

#include <comera/base/file.h>
#include <comera/base/random.h>
#include <comera/data/dataset.h>
#include <comera/train/task.h>

namespace comera::test {

inline data::Dataset small_dataset(const std::filesystem::path& path, std::int64_t samples, std::uint64_t key,
                                   bool labelled = true) {
  data::DatasetWriter writer(path);
  RandomStream stream(key);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto label = static_cast<std::int64_t>(stream.below(3));
    std::vector<std::int32_t> tokens{2};
    for (std::uint64_t t = 0, n = 4 + stream.below(10); t < n; ++t)
      tokens.push_back(static_cast<std::int32_t>(stream.below(3) ? 5 + label : 8 + stream.below(24)));
    tokens.push_back(3);
    writer.add({tokens, static_cast<std::int64_t>(tokens.size()), labelled ? label : -1});
  }
  writer.commit("{}");
  return data::Dataset(path);
}

inline train::Task small_task(const TemporaryFolder& folder, bool labelled = true) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 32; ++i) vocabulary += fmt::format("w{}\n", i);
  write_file(folder / "vocabulary.txt", vocabulary);
  train::Task task;
  task.tokenizer = data::load_wordpiece(folder / "vocabulary.txt");
  task.train = small_dataset(folder / "train.data", 300, 1, labelled);
  task.held_out = small_dataset(folder / "held_out.data", 100, 2, labelled);
  if (labelled) task.labels = {"a", "b", "c"};
  return task;
}

// Recipe text of a two-layer model with every kind of layer; `more` is added to it.
inline train::Recipe small_recipe(const std::string& more = "", const std::vector<std::string>& set = {}) {
  return train::parse_recipe(R"(
[model]
layers = 2
width = 16
heads = 2
ffn = 32
positions = 16
segments = 0
norm = "pre"
norm_epsilon = 1e-5
dropout = 0.1
attention_dropout = 0.1
pooling = "mean"
table_std = 1.0
[data]
source = "sst2"
train = "unused"
max_length = 16
[train]
steps = 60
batch_size = 12
learning_rate = 3e-3
core_learning_rate = 5e-3
threads = 1
[rank]
cut_every = 10
[[layers]]
match = "embedding.word"
format = "compressed"
digits = 2
ranks = 8
[[layers]]
match = "encoder.*"
format = "compressed"
digits = 2
ranks = 6
[[layers]]
match = "pooler"
format = "low_rank"
ranks = 4
)" + more,
                             "small.toml", set);
}

}  // namespace comera::test
