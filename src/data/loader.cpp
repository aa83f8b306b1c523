#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/data/loader.h>

#include <algorithm>
#include <numeric>

namespace comera::data {
namespace {

// Batches of similar length are cut from pools of this many batches: large enough to leave little padding,
// small enough that the order stays random.
constexpr std::int64_t kPoolBatches = 64;

// Random sites of the two shuffles of an epoch.
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
  order_epoch();
}

std::int64_t Loader::batches_per_epoch() const { return (dataset_.size() - 1) / options_.batch_size + 1; }

bool Loader::done() const { return !options_.shuffle && position_.batch == batches_per_epoch(); }

std::vector<std::int64_t> Loader::shuffled(std::int64_t epoch) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset_.size()));
  std::iota(order.begin(), order.end(), 0);
  RandomStream stream(random_key(options_.seed, static_cast<std::uint64_t>(epoch), kSampleOrder));
  shuffle(order, stream);
  return order;
}

void Loader::order_epoch() {
  if (!options_.shuffle) return;
  const std::int64_t batch = options_.batch_size, places = batches_per_epoch() * batch;
  order_ = shuffled(position_.epoch);
  if (const std::int64_t missing = places - dataset_.size(); missing > 0) {
    const auto following = shuffled(position_.epoch + 1);
    for (std::int64_t i = 0; i < missing; ++i) order_.push_back(following[i % following.size()]);
  }
  if (!options_.bucket) return;

  for (std::int64_t begin = 0; begin < places; begin += kPoolBatches * batch) {
    const std::int64_t end = std::min(places, begin + kPoolBatches * batch);
    std::vector<std::pair<std::int64_t, std::int64_t>> pool;  // length, sample
    for (std::int64_t i = begin; i < end; ++i)
      pool.emplace_back(static_cast<std::int64_t>(dataset_[order_[i]].tokens.size()), order_[i]);
    std::stable_sort(pool.begin(), pool.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::int64_t i = begin; i < end; ++i) order_[i] = pool[i - begin].second;
  }
  std::vector<std::int64_t> batches(static_cast<std::size_t>(batches_per_epoch()));
  std::iota(batches.begin(), batches.end(), 0);
  RandomStream stream(random_key(options_.seed, static_cast<std::uint64_t>(position_.epoch), kBatchOrder));
  shuffle(batches, stream);
  std::vector<std::int64_t> ordered;
  ordered.reserve(order_.size());
  for (const std::int64_t b : batches)
    ordered.insert(ordered.end(), order_.begin() + b * batch, order_.begin() + (b + 1) * batch);
  order_ = std::move(ordered);
}

Batch Loader::next() {
  check(!done(), "[loader] all {} batches were given; seek to the start to go over them again",
        batches_per_epoch());
  const std::int64_t begin = position_.batch * options_.batch_size;
  const std::int64_t places =
      options_.shuffle ? options_.batch_size : std::min(options_.batch_size, dataset_.size() - begin);
  Batch batch;
  batch.size = places;
  for (std::int64_t i = 0; i < places; ++i) {
    batch.sample_ids.push_back(options_.shuffle ? order_[begin + i] : begin + i);
    const auto tokens = static_cast<std::int64_t>(dataset_[batch.sample_ids[i]].tokens.size());
    batch.lengths.push_back(std::min(tokens, options_.max_length));
    batch.length = std::max(batch.length, batch.lengths[i]);
  }
  batch.length = options_.pad_to_max
                     ? options_.max_length
                     : std::min(options_.max_length, rounded_up(batch.length, options_.pad_to));
  batch.tokens.assign(batch.size * batch.length, options_.pad);
  batch.segments.assign(batch.size * batch.length, 0);
  for (std::int64_t i = 0; i < places; ++i) {
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
  if (options_.shuffle && position_.batch == batches_per_epoch()) {
    position_ = {position_.epoch + 1, 0};
    order_epoch();
  }
  return batch;
}

void Loader::seek(LoaderPosition position) {
  const std::int64_t last = options_.shuffle ? batches_per_epoch() - 1 : batches_per_epoch();
  check(position.epoch >= 0 && (options_.shuffle || position.epoch == 0) && position.batch >= 0 &&
            position.batch <= last,
        "[loader] no position epoch {}, batch {}: an epoch has {} batches", position.epoch, position.batch,
        batches_per_epoch());
  const bool same_epoch = position.epoch == position_.epoch;
  position_ = position;
  if (!same_epoch) order_epoch();
}

}  // namespace comera::data
