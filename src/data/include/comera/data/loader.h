// Batches of a prepared dataset, bucketed by length, in an order that depends on (seed, epoch) only.
#pragma once

#include <comera/data/dataset.h>

#include <cstdint>
#include <vector>

namespace comera::data {

/// Padded batch in row-major order; all vectors belong to the batch.
struct Batch {
  std::int64_t size = 0;                 ///< samples
  std::int64_t length = 0;               ///< padded tokens a sample
  std::vector<std::int64_t> tokens;      ///< [size, length], padded with `pad`
  std::vector<std::int64_t> segments;    ///< [size, length], 0 or 1; padding has 0
  std::vector<std::int64_t> lengths;     ///< [size], tokens that are real
  std::vector<std::int64_t> labels;      ///< [size], -1 without labels
  std::vector<std::int64_t> sample_ids;  ///< [size], index in the dataset: keys of the random numbers
};

struct LoaderOptions {
  std::int64_t batch_size = 32;
  std::int64_t max_length = 128;  ///< longer samples are cut; the last token is kept (it is [SEP])
  std::int64_t pad_to = 8;        ///< padded length is a multiple of this (at most max_length)
  bool pad_to_max = false;        ///< every batch has max_length, as the reference step does
  bool shuffle = true;            ///< false: dataset order, and the last batch may be smaller
  bool bucket = true;             ///< with shuffle: batches of similar length (shuffled in random order)
  std::int32_t pad = 0;
  std::uint64_t seed = 1;
};

/// Where a loader stands; stored in checkpoints.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  bool operator==(const LoaderPosition&) const = default;
};

class Loader {
 public:
  /// `dataset` must outlive the loader. Throws Error when the dataset is empty or an option is out of range.
  Loader(const Dataset& dataset, LoaderOptions options);
  std::int64_t batches_per_epoch() const;
  /// The next batch. With shuffle, goes on into the next epoch (each sample once an epoch; the last places of
  /// an epoch are filled from the start of the next order so that every batch is full); without, ends: see
  /// `done`.
  Batch next();
  /// True when a loader without shuffle has given all its batches.
  bool done() const;
  LoaderPosition position() const { return position_; }
  /// Goes to a position that position() gave; what follows is bitwise what followed then. Throws Error for
  /// others.
  void seek(LoaderPosition position);

 private:
  void order_pool(LoaderPosition begin);
  std::vector<std::int64_t> batch_samples();
  const Dataset& dataset_;
  LoaderOptions options_;
  LoaderPosition position_;
  std::vector<std::int64_t>
      pool_;  // with shuffle: samples of some consecutive batches, the first at pool_begin_
  LoaderPosition pool_begin_;
};

}  // namespace comera::data
