#include <comera/base/error.h>
#include <comera/train/batch.h>

#include <gtest/gtest.h>

#include <map>

using namespace comera;
using namespace comera::train;

namespace {

data::Batch batch_of(std::int64_t size, std::int64_t length) {
  data::Batch batch;
  batch.size = size, batch.length = length;
  for (std::int64_t b = 0; b < size; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      batch.tokens.push_back(t == 0 ? 2 : t == length - 1 ? 3 : 10 + (b * 31 + t * 7) % 80);
      batch.segments.push_back(t > length / 2);
    }
    batch.lengths.push_back(length);
    batch.labels.push_back(b % 3);
    batch.sample_ids.push_back(1000 + b);
  }
  return batch;
}

BatchOptions options(nn::Head head) {
  return {.head = head,
          .mask_share = 0.15,
          .special = {.pad = 0, .unknown = 1, .cls = 2, .sep = 3, .mask = 4},
          .vocabulary = 100};
}

}  // namespace

TEST(Batch, MaskedShareAndChangesAreBerts) {
  const data::Batch batch = batch_of(400, 102);
  const ModelBatch result = make_batch(batch, 0, 400, options(nn::Head::masked), 77);
  const double share = result.target_count / (400.0 * 100);
  EXPECT_NEAR(share, 0.15, 0.005);
  std::map<std::string, double> kinds;
  const auto tokens = result.input.tokens.flatten();
  for (std::int64_t i = 0; i < result.target_count; ++i) {
    const auto seen = tokens[result.input.places[i].item<std::int64_t>()].item<std::int64_t>();
    const auto target = result.targets[i].item<std::int64_t>();
    EXPECT_GT(target, 4);
    ++kinds[seen == 4 ? "mask" : seen == target ? "kept" : "random"];
  }
  EXPECT_NEAR(kinds["mask"] / result.target_count, 0.8, 0.03);
  EXPECT_NEAR(kinds["kept"] / result.target_count, 0.1, 0.02);
}

TEST(Batch, PartsOfABatchAreMaskedAsTheWhole) {
  const data::Batch batch = batch_of(8, 40);
  const ModelBatch whole = make_batch(batch, 0, 8, options(nn::Head::masked), 5);
  const ModelBatch part = make_batch(batch, 4, 4, options(nn::Head::masked), 5);
  EXPECT_TRUE(torch::equal(whole.input.tokens.slice(0, 4, 8), part.input.tokens));
  EXPECT_FALSE(
      torch::equal(whole.input.tokens, make_batch(batch, 0, 8, options(nn::Head::masked), 6).input.tokens));
}

TEST(Batch, NextTokenTargetsAreTheFollowingTokens) {
  data::Batch batch = batch_of(2, 6);
  batch.lengths = {6, 3};
  const ModelBatch result = make_batch(batch, 0, 2, options(nn::Head::next_token), 0);
  EXPECT_EQ(result.target_count, 5 + 2);
  EXPECT_EQ(result.tokens, 9);
  for (std::int64_t i = 0; i < result.target_count; ++i) {
    const auto place = result.input.places[i].item<std::int64_t>();
    EXPECT_EQ(result.targets[i].item<std::int64_t>(), batch.tokens[place + 1]);
  }
}

TEST(Batch, ARangeOutsideIsRefused) {
  EXPECT_THROW(make_batch(batch_of(2, 4), 1, 2, options(nn::Head::classifier), 0), Error);
}
