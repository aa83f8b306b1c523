#include "memory.h"
#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>
#include <comera/data/dataset.h>

#include <gtest/gtest.h>

#include <fstream>

using namespace comera;
using data::Dataset;
using data::DatasetWriter;
namespace fs = std::filesystem;

namespace {

struct Stored {
  std::vector<std::int32_t> tokens;
  std::int64_t first_segment, label;
};

std::vector<Stored> random_samples(std::uint64_t seed, std::int64_t count) {
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  std::vector<Stored> samples;
  for (std::int64_t i = 0; i < count; ++i) {
    Stored sample;
    sample.tokens.resize(1 + random.below(40));
    for (auto& token : sample.tokens) token = static_cast<std::int32_t>(random.below(30'522));
    sample.first_segment = static_cast<std::int64_t>(random.below(sample.tokens.size() + 1));
    sample.label = static_cast<std::int64_t>(random.below(4)) - 1;
    samples.push_back(std::move(sample));
  }
  return samples;
}

void write(const fs::path& path, const std::vector<Stored>& samples, const std::string& description = "{}") {
  DatasetWriter writer(path);
  for (const auto& sample : samples) writer.add({sample.tokens, sample.first_segment, sample.label});
  writer.commit(description);
}

void expect_equal(const Dataset& dataset, const std::vector<Stored>& samples) {
  ASSERT_EQ(dataset.size(), samples.size());
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const data::Sample sample = dataset[i];
    ASSERT_EQ(std::vector<std::int32_t>(sample.tokens.begin(), sample.tokens.end()), samples[i].tokens) << i;
    ASSERT_EQ(sample.first_segment, samples[i].first_segment) << i;
    ASSERT_EQ(sample.label, samples[i].label) << i;
  }
}

void write_plainly(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string error_opening(const fs::path& path) {
  try {
    Dataset dataset(path);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(path.string()), 0) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Dataset, GivesBackWhatWasWritten) {
  test::TemporaryFolder folder;
  // 40,000 samples: more than one buffer of records and of tokens, and both odd and even token counts.
  for (const std::int64_t count : {0, 1, 2, 3, 5'000, 40'000}) {
    const auto samples = random_samples(11 + count, count);
    write(folder / "set", samples, R"({"labels": ["no", "yes"]})");
    const Dataset dataset(folder / "set");
    expect_equal(dataset, samples);
    std::int64_t tokens = 0, longest = 0, label = -1;
    std::int32_t token = -1;
    for (const auto& sample : samples) {
      tokens += sample.tokens.size();
      longest = std::max<std::int64_t>(longest, sample.tokens.size());
      label = std::max(label, sample.label);
      for (const auto value : sample.tokens) token = std::max(token, value);
    }
    EXPECT_EQ(dataset.largest_token(), token);
    EXPECT_EQ(dataset.total_tokens(), tokens);
    EXPECT_EQ(dataset.longest(), longest);
    EXPECT_EQ(dataset.largest_label(), label);
    EXPECT_EQ(dataset.description(), R"({"labels": ["no", "yes"]})");
    EXPECT_THROW(dataset[-1], Error);
    EXPECT_THROW(dataset[count], Error);
  }
}

TEST(Dataset, EqualContentGivesEqualFilesAndHashes) {
  test::TemporaryFolder folder;
  const auto samples = random_samples(3, 100);
  write(folder / "a", samples);
  write(folder / "b", samples);
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
  EXPECT_EQ(Dataset(folder / "a").content_hash(), Dataset(folder / "b").content_hash());
  write(folder / "b", random_samples(4, 100));
  EXPECT_NE(Dataset(folder / "a").content_hash(), Dataset(folder / "b").content_hash());
}

TEST(Dataset, WithoutCommitTheFolderStaysAsItWas) {
  test::TemporaryFolder folder;
  write(folder / "set", random_samples(1, 3));
  const std::string before = read_file(folder / "set");
  {
    DatasetWriter writer(folder / "set");
    writer.add({std::vector<std::int32_t>{1, 2}, 0, 0});
  }
  EXPECT_EQ(read_file(folder / "set"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Dataset, SamplesThatCannotBeAreRefusedOnWriting) {
  test::TemporaryFolder folder;
  DatasetWriter writer(folder / "set");
  const std::vector<std::int32_t> two{1, 2}, negative{1, -2}, none;
  EXPECT_THROW(writer.add({none, 0, 0}), Error);
  EXPECT_THROW(writer.add({negative, 0, 0}), Error);
  EXPECT_THROW(writer.add({two, 3, 0}), Error);
  EXPECT_THROW(writer.add({two, -1, 0}), Error);
  EXPECT_THROW(writer.add({two, 0, -2}), Error);
  EXPECT_THROW(writer.add({two, 0, std::int64_t{1} << 31}), Error);
  EXPECT_EQ(writer.size(), 0);
}

TEST(Dataset, EveryTruncationAndEveryFlippedByteIsRefused) {
  test::TemporaryFolder folder;
  write(folder / "good", random_samples(5, 7), R"({"a": 1})");
  const std::string good = read_file(folder / "good");
  for (std::size_t length = 0; length < good.size(); ++length) {
    write_plainly(folder / "bad", std::string_view(good).substr(0, length));
    EXPECT_NE(error_opening(folder / "bad"), "") << "cut to " << length;
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x40;
    write_plainly(folder / "bad", bad);
    EXPECT_NE(error_opening(folder / "bad"), "") << "byte " << i;
  }
  write_file(folder / "bad", good + "x");
  EXPECT_NE(error_opening(folder / "bad"), "");
}

TEST(Dataset, TheReasonIsNamed) {
  test::TemporaryFolder folder;
  EXPECT_NE(error_opening(folder / "none").find("cannot open"), std::string::npos);
  EXPECT_NE(error_opening(folder.path()).find("not a regular file"), std::string::npos);
  write_file(folder / "text", "label\tsentence\n");
  EXPECT_NE(error_opening(folder / "text").find("not prepared data"), std::string::npos);
}

TEST(Dataset, ReadingAllSamplesDoesNotKeepTheFileInMemory) {
  test::TemporaryFolder folder;
  constexpr std::int64_t kSamples = 250'000, kLength = 128;  // 132 MB
  {
    DatasetWriter writer(folder / "set");
    const std::vector<std::int32_t> tokens(kLength, 7);
    for (std::int64_t i = 0; i < kSamples; ++i) writer.add({tokens, 0, 0});
    writer.commit("{}");
  }
  const test::PeakMemory peak;
  const Dataset dataset(folder / "set");
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < kSamples; ++i)
    for (const auto token : dataset[i].tokens) sum += token;
  EXPECT_EQ(sum, kSamples * kLength * 7);
  EXPECT_LT(peak.growth(), 80e6);
}
