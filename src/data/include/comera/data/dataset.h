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

/// Streams samples to disk in bounded memory. Without commit() nothing is left at `path`.
class DatasetWriter {
 public:
  explicit DatasetWriter(const std::filesystem::path& path);
  ~DatasetWriter();
  DatasetWriter(DatasetWriter&&) noexcept;
  /// Throws Error for an empty sample, a negative token, a first_segment outside [0, tokens] or a label below
  /// -1.
  void add(const Sample& sample);
  std::int64_t size() const;
  /// `description`: JSON text stored with the data (source, hash, options, label names).
  void commit(const std::string& description);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Read access to a prepared file; safe to use from several threads.
class Dataset {
 public:
  /// Maps the file after checking sizes, checksum and every offset, token, segment and label in one streaming
  /// pass. Throws Error naming the path when it is truncated, damaged, foreign or of a later version.
  explicit Dataset(const std::filesystem::path& path);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;
  std::int64_t size() const;
  /// Throws Error unless 0 <= index < size(). The span stays valid as long as the dataset.
  Sample operator[](std::int64_t index) const;
  std::int64_t total_tokens() const;
  /// Largest token id, label and sample length in the file; -1, -1 and 0 when it has no samples.
  std::int32_t largest_token() const;
  std::int64_t largest_label() const;
  std::int64_t longest() const;
  const std::string& description() const;
  /// Hash of everything in the file: equal files, equal hashes.
  std::uint64_t content_hash() const;
  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace comera::data
