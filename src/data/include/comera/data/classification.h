// Texts and text pairs with a label, from row files: what a file looks like, its label names, its examples.
#pragma once

#include <comera/data/rows.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace comera::data {

/// One file of examples.
struct ClassificationSource {
  std::filesystem::path path{};
  std::optional<Format> format{};   ///< by extension when absent
  std::vector<std::string> text{};  ///< one column, or two for pairs
  std::string label{};              ///< column; empty for a file without labels
  bool header = true;               ///< false: columns are "1", "2", ... by position
  std::string drop{};               ///< rows with this label are left out and counted ("-" in MultiNLI)
};

/// The layout called `preset` over `path`:
/// nli (label, premise, hypothesis), multinli (gold_label, sentence1, sentence2, rows with "-" dropped;
/// .jsonl or .txt of MultiNLI and SNLI), and of GLUE sst2, mrpc, rte, qnli, cola (no header).
ClassificationSource preset_source(const std::string& preset, const std::filesystem::path& path);
const std::vector<std::string>& preset_names();

/// Class names in the order of their indices.
class LabelMap {
 public:
  LabelMap() = default;
  /// Throws Error when a name is empty or occurs twice, or when there are fewer than two.
  explicit LabelMap(std::vector<std::string> names);
  const std::vector<std::string>& names() const { return names_; }
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  /// Index of `name`, or -1.
  std::int64_t index(const std::string& name) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t> indices_;
};

/// The different labels of a file (read once, streaming), sorted: as numbers when all are integers, else by
/// bytes.
LabelMap find_labels(const ClassificationSource& source);

struct Example {
  std::string first;
  std::string second;       ///< empty unless the source is of pairs
  std::int64_t label = -1;  ///< -1 when the source has no label column
  std::int64_t line = 0;
};

class ClassificationReader {
 public:
  /// `labels` may be empty when source.label is.
  ClassificationReader(const ClassificationSource& source, LabelMap labels);
  /// False at the end. Throws Error `file:line` for a label that is not in the map, with the known ones, and
  /// for a file without a single row.
  bool next(Example& example);
  std::int64_t dropped() const { return dropped_; }
  std::int64_t bytes_read() const { return rows_->bytes_read(); }

 private:
  ClassificationSource source_;
  LabelMap labels_;
  std::unique_ptr<RowReader> rows_;
  Row row_;
  std::int64_t given_ = 0, dropped_ = 0;
};

}  // namespace comera::data
