#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/data/loader.h>

#include <gtest/gtest.h>

#include <map>

using namespace comera;
using data::Batch;
using data::Loader;
using data::LoaderOptions;

namespace {

class LoaderTest : public testing::Test {
 protected:
  // Sample i has length 1 + (i * 7) % longest, tokens i + 1, a first_segment in the middle, and label i.
  data::Dataset make(std::int64_t samples, std::int64_t longest = 50) {
    data::DatasetWriter writer(folder_ / "set");
    for (std::int64_t i = 0; i < samples; ++i) {
      std::vector<std::int32_t> tokens(1 + i * 7 % longest, static_cast<std::int32_t>(i + 1));
      tokens.back() = 9999;
      writer.add({tokens, static_cast<std::int64_t>(tokens.size()) / 2, i});
    }
    writer.commit("{}");
    return data::Dataset(folder_ / "set");
  }
  test::TemporaryFolder folder_;
};

bool operator==(const Batch& a, const Batch& b) {
  return a.size == b.size && a.length == b.length && a.tokens == b.tokens && a.segments == b.segments &&
         a.lengths == b.lengths && a.labels == b.labels && a.sample_ids == b.sample_ids;
}

}  // namespace

TEST_F(LoaderTest, WithoutShuffleGivesDatasetOrderAndEnds) {
  const auto dataset = make(10);
  Loader loader(dataset, {.batch_size = 4, .shuffle = false});
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  std::vector<std::int64_t> seen;
  while (!loader.done()) {
    const Batch batch = loader.next();
    seen.insert(seen.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  }
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_THROW(loader.next(), Error);
  loader.seek({});
  EXPECT_EQ(loader.next().size, 4);
}

TEST_F(LoaderTest, EachSampleOnceAnEpochAndEveryBatchFull) {
  for (const bool bucket : {false, true})
    for (const std::int64_t samples : {1, 3, 8, 13, 1'000}) {
      SCOPED_TRACE(samples);
      const auto dataset = make(samples);
      Loader loader(dataset, {.batch_size = 8, .bucket = bucket});
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        std::map<std::int64_t, std::int64_t> times;
        for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
          EXPECT_EQ(loader.position(), (data::LoaderPosition{epoch, b}));
          const Batch batch = loader.next();
          EXPECT_EQ(batch.size, 8);
          for (const auto id : batch.sample_ids) ++times[id];
        }
        std::int64_t places = 0;
        EXPECT_EQ(times.size(), samples);
        for (const auto& [id, count] : times) {
          places += count;
          EXPECT_LE(count, 1 + (loader.batches_per_epoch() * 8 - 1) / samples);
        }
        EXPECT_EQ(places, loader.batches_per_epoch() * 8);
      }
    }
}

TEST_F(LoaderTest, TheOrderDependsOnSeedAndEpochOnly) {
  const auto dataset = make(100);
  const auto epoch = [&](LoaderOptions options, std::int64_t number) {
    Loader loader(dataset, options);
    loader.seek({number, 0});
    std::vector<std::int64_t> ids;
    for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b)
      for (const auto id : loader.next().sample_ids) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(epoch({.seed = 5}, 0), epoch({.seed = 5}, 0));
  EXPECT_NE(epoch({.seed = 5}, 0), epoch({.seed = 6}, 0));
  EXPECT_NE(epoch({.seed = 5}, 0), epoch({.seed = 5}, 1));
}

TEST_F(LoaderTest, SeekGoesOnBitwise) {
  const auto dataset = make(103);
  const LoaderOptions options{.batch_size = 8, .seed = 3};
  Loader straight(dataset, options);
  for (int step = 0; step < 40; ++step) {
    Loader resumed(dataset, options);
    resumed.seek(straight.position());
    const Batch batch = straight.next();
    EXPECT_TRUE(batch == resumed.next()) << step;
    EXPECT_EQ(straight.position(), resumed.position());
  }
  EXPECT_THROW(straight.seek({0, 13}), Error);
  EXPECT_THROW(straight.seek({-1, 0}), Error);
  EXPECT_THROW(straight.seek({0, -1}), Error);
}

TEST_F(LoaderTest, ContentsPaddingAndCuts) {
  const auto dataset = make(60);
  Loader loader(dataset, {.batch_size = 7, .max_length = 30, .pad_to = 8, .shuffle = false, .pad = -5});
  while (!loader.done()) {
    const Batch batch = loader.next();
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const auto id = batch.sample_ids[i];
      const std::int64_t full = 1 + id * 7 % 50, length = std::min<std::int64_t>(full, 30), middle = full / 2;
      EXPECT_EQ(batch.lengths[i], length);
      EXPECT_EQ(batch.labels[i], id);
      longest = std::max(longest, length);
      for (std::int64_t j = 0; j < batch.length; ++j) {
        const bool last = j == length - 1;
        EXPECT_EQ(batch.tokens[i * batch.length + j], j >= length ? -5 : last ? 9999 : id + 1);
        EXPECT_EQ(batch.segments[i * batch.length + j], j < length && (j >= middle || last));
      }
    }
    EXPECT_EQ(batch.length, std::min<std::int64_t>((longest + 7) / 8 * 8, 30));
  }
  Loader reference(dataset, {.batch_size = 2, .max_length = 64, .pad_to_max = true});
  EXPECT_EQ(reference.next().length, 64);
}

TEST_F(LoaderTest, BucketsLeaveLittlePadding) {
  const auto dataset = make(4'000, 120);
  const auto padding = [&](bool bucket) {
    Loader loader(dataset, {.batch_size = 16, .bucket = bucket});
    double places = 0, real = 0;
    for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
      const Batch batch = loader.next();
      places += batch.size * batch.length;
      for (const auto length : batch.lengths) real += length;
    }
    return 1 - real / places;
  };
  EXPECT_LT(padding(true), 0.10);
  EXPECT_GT(padding(false), 0.40);
}

TEST_F(LoaderTest, OrdersAreEvenlyRandom) {
  // Over many seeds each of 7 samples stands equally often at each of 7 places: chi-square with 36 degrees of
  // freedom, 99.99% below 83.
  const auto dataset = make(7);
  constexpr int kSeeds = 7'000;
  std::vector<int> times(49, 0);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Loader loader(dataset, {.batch_size = 7, .bucket = false, .seed = seed});
    const auto ids = loader.next().sample_ids;
    for (int place = 0; place < 7; ++place) ++times[place * 7 + ids[place]];
  }
  double chi_square = 0;
  for (const int count : times) chi_square += (count - 1e3) * (count - 1e3) / 1e3;
  EXPECT_LT(chi_square, 83);
}

TEST_F(LoaderTest, BadOptionsAndEmptyDataAreRefused) {
  const auto empty = make(0);
  EXPECT_THROW(Loader(empty, {}), Error);
  const auto dataset = make(3);
  EXPECT_THROW(Loader(dataset, {.batch_size = 0}), Error);
  EXPECT_THROW(Loader(dataset, {.max_length = 0}), Error);
  EXPECT_THROW(Loader(dataset, {.pad_to = 0}), Error);
}
