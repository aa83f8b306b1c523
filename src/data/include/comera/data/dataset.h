// Prepared samples on disk: token ids, segments and labels in one memory-mapped file, so that memory does not
// grow with the data. Written once by DatasetWriter (atomic), opened by Dataset, which checks everything it
// reads.
#pragma once

#include <comera/base/file.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace comera::data {

/// One prepared sample. `tokens` hold the special tokens already. Token i belongs to segment 0 when
/// i < first_segment, else 1. `label` is a class index, or -1 for text without labels (language models).
struct Sample {
  std::span<const std::int32_t> tokens;
  std::int64_t first_segment = 0;
  std::int64_t label = -1;
};

class DatasetWriter {
 public:
  explicit DatasetWriter(const std::filesystem::path& path);
  ~DatasetWriter();
  void add(const Sample& sample);
  /// `description`: free JSON text stored with the data (source, hash, options, label names).
  void commit(const std::string& description);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Dataset {
 public:
  /// Maps the file. Throws Error naming the path when it is truncated, damaged or foreign.
  explicit Dataset(const std::filesystem::path& path);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  std::int64_t size() const;
  Sample operator[](std::int64_t index) const;
  std::int64_t total_tokens() const;
  const std::string& description() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera::data
