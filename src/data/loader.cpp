#include "permutation.h"

#include <comera/base/error.h>
#include <comera/data/loader.h>

#include <algorithm>

namespace comera::data {
namespace {

// The random order of an epoch is made pool by pool: within a pool of this many batches, samples are sorted
// by length, cut into batches, and the batches shuffled. That leaves little padding, and every pool has all
// lengths.
constexpr std::int64_t kPoolBatches = 64;

// Random sites of an epoch: its order of samples, and from the second on the order of batches of each pool.
constexpr std::uint64_t kSampleOrder = 1, kBatchOrder = 2;

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void check_options(const LoaderOptions& options) {
  check(options.batch_size >= 1, "[loader] batch_size is {}; it must be at least 1", options.batch_size);
  check(options.max_length >= 1, "[loader] max_length is {}; it must be at least 1", options.max_length);
  check(options.pad_to >= 1, "[loader] pad_to is {}; it must be at least 1", options.pad_to);
}

}  // namespace

Loader::Loader(const Dataset& dataset, LoaderOptions options) : dataset_(dataset), options_(options) {
  check_options(options_);
  check(dataset_.size() > 0, "{}: has no samples", dataset_.path().string());
}

std::int64_t Loader::batches_per_epoch() const { return (dataset_.size() - 1) / options_.batch_size + 1; }

bool Loader::done() const { return !options_.shuffle && position_.batch == batches_per_epoch(); }

// Samples of the pool of batches that begins at `begin`, in places of the epoch's order.
void Loader::order_pool(LoaderPosition begin) {
  const std::int64_t batch = options_.batch_size, samples = dataset_.size();
  const std::int64_t first = begin.batch * batch;
  const std::int64_t last = std::min(batches_per_epoch() * batch, first + kPoolBatches * batch);
  const auto order_of = [&](std::int64_t epoch) {
    return Permutation(static_cast<std::uint64_t>(samples),
                       random_key(options_.seed, static_cast<std::uint64_t>(epoch), kSampleOrder));
  };
  const Permutation order = order_of(begin.epoch), following = order_of(begin.epoch + 1);
  pool_.clear();
  for (std::int64_t place = first; place < last; ++place)
    pool_.push_back(static_cast<std::int64_t>(place < samples ? order(place) : following(place % samples)));
  pool_begin_ = begin;
  if (!options_.bucket) return;

  std::vector<std::pair<std::int64_t, std::int64_t>> by_length;
  for (const std::int64_t sample : pool_)
    by_length.emplace_back(static_cast<std::int64_t>(dataset_[sample].tokens.size()), sample);
  std::stable_sort(by_length.begin(), by_length.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::int64_t batches = (last - first) / batch;
  const Permutation batch_order(static_cast<std::uint64_t>(batches),
                                random_key(options_.seed, static_cast<std::uint64_t>(begin.epoch),
                                           kBatchOrder + static_cast<std::uint64_t>(begin.batch)));
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t i = 0; i < batch; ++i)
      pool_[b * batch + i] = by_length[static_cast<std::int64_t>(batch_order(b)) * batch + i].second;
}

// The samples of the batch at the loader's position.
std::vector<std::int64_t> Loader::batch_samples() {
  const std::int64_t batch = options_.batch_size;
  std::vector<std::int64_t> samples;
  if (!options_.shuffle) {
    const std::int64_t begin = position_.batch * batch, end = std::min(dataset_.size(), begin + batch);
    for (std::int64_t i = begin; i < end; ++i) samples.push_back(i);
    return samples;
  }
  const LoaderPosition begin{position_.epoch, position_.batch / kPoolBatches * kPoolBatches};
  if (pool_.empty() || begin != pool_begin_) order_pool(begin);
  const auto first = pool_.begin() + (position_.batch - begin.batch) * batch;
  samples.assign(first, first + batch);
  return samples;
}

Batch Loader::next() {
  check(!done(), "[loader] all {} batches were given; seek to the start to go over them again",
        batches_per_epoch());
  Batch batch;
  batch.sample_ids = batch_samples();
  batch.size = static_cast<std::int64_t>(batch.sample_ids.size());
  for (const std::int64_t id : batch.sample_ids) {
    const auto tokens = static_cast<std::int64_t>(dataset_[id].tokens.size());
    batch.lengths.push_back(std::min(tokens, options_.max_length));
    batch.length = std::max(batch.length, batch.lengths.back());
  }
  batch.length = options_.pad_to_max
                     ? options_.max_length
                     : std::min(options_.max_length, rounded_up(batch.length, options_.pad_to));
  batch.tokens.assign(batch.size * batch.length, options_.pad);
  batch.segments.assign(batch.size * batch.length, 0);
  for (std::int64_t i = 0; i < batch.size; ++i) {
    const Sample sample = dataset_[batch.sample_ids[i]];
    const std::int64_t length = batch.lengths[i];
    std::int64_t* tokens = batch.tokens.data() + i * batch.length;
    std::int64_t* segments = batch.segments.data() + i * batch.length;
    std::copy_n(sample.tokens.begin(), length, tokens);
    for (std::int64_t j = sample.first_segment; j < length; ++j) segments[j] = 1;
    tokens[length - 1] = sample.tokens.back();
    segments[length - 1] = sample.first_segment < static_cast<std::int64_t>(sample.tokens.size());
    batch.labels.push_back(sample.label);
  }

  position_.batch += 1;
  if (options_.shuffle && position_.batch == batches_per_epoch()) position_ = {position_.epoch + 1, 0};
  return batch;
}

void Loader::seek(LoaderPosition position) {
  const std::int64_t last = options_.shuffle ? batches_per_epoch() - 1 : batches_per_epoch();
  check(position.epoch >= 0 && (options_.shuffle || position.epoch == 0) && position.batch >= 0 &&
            position.batch <= last,
        "[loader] no position epoch {}, batch {}: an epoch has {} batches", position.epoch, position.batch,
        batches_per_epoch());
  position_ = position;
}

}  // namespace comera::data
