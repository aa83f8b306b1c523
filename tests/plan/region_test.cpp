#include <comera/base/error.h>
#include <comera/plan/region.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::plan;

namespace {

const format::Shape kAttention = format::tt({12, 8, 8}, {8, 8, 12}, {30});
const format::Shape kUp = format::tt({12, 8, 8}, {12, 16, 16}, {12, 30, 30, 30, 16});
const format::Shape kDown = format::tt({16, 16, 12}, {8, 8, 12}, {30});

Request tokens(std::int64_t count) {
  Request request;
  request.tokens = count;
  return request;
}

const RegionPlan& named(const std::vector<RegionPlan>& plans, const std::string& name) {
  for (const RegionPlan& plan : plans)
    if (plan.name == name) return plan;
  throw Error("no plan " + name);
}

}  // namespace

TEST(Region, OneLayerIsItsPlan) {
  Request request = tokens(64);
  const auto plans = plan_region({RegionKind::single, {kAttention}}, request, default_profile());
  ASSERT_EQ(plans.size(), 1u);
  request.layers = {kAttention};
  EXPECT_EQ(plans[0].plans.at(0), make_plan(request, default_profile()));
  EXPECT_EQ(plans[0].peak_bytes, plans[0].plans[0].peak_bytes);
}

TEST(Region, SharedInputRunsFusedOrComposed) {
  const auto plans = plan_region({RegionKind::shared_input, {kAttention, kAttention, kAttention}},
                                 tokens(4096), default_profile());
  ASSERT_EQ(plans.size(), 2u);
  const RegionPlan &fused = named(plans, "fused"), &composed = named(plans, "composed");
  EXPECT_EQ(plans[0].name, "fused") << "one product over X for all three";
  EXPECT_EQ(fused.plans.size(), 1u);
  EXPECT_EQ(composed.plans.size(), 3u);
  EXPECT_EQ(fused.total_multiply_adds, composed.total_multiply_adds);
  EXPECT_LT(fused.bytes_moved, composed.bytes_moved);
  EXPECT_LE(fused.predicted_seconds, composed.predicted_seconds);
  // X times the left factors of all layers: one product of 3 x 30 columns.
  bool found = false;
  for (const Step& step : fused.plans[0].steps)
    found = found || (step.product == Product{1, 4096, 768, 90} && !step.backward);
  EXPECT_TRUE(found);
  // Two gradients of X are added: read two, write one, each time.
  std::int64_t moved = 0;
  for (const Plan& plan : composed.plans) moved += plan.bytes_moved;
  EXPECT_EQ(composed.bytes_moved - moved, 2 * 3 * 4096 * 768 * 4);
}

TEST(Region, RanksMayDifferWhenFusedAndDigitsMayNot) {
  const format::Shape cut = format::tt({12, 8, 8}, {8, 8, 12}, {10});
  const auto padded =
      plan_region({RegionKind::shared_input, {kAttention, cut, cut}}, tokens(256), default_profile());
  EXPECT_GT(named(padded, "fused").total_multiply_adds, named(padded, "composed").total_multiply_adds);
  const format::Shape narrow = format::tt({12, 8, 8}, {8, 8}, {10});
  const auto composed =
      plan_region({RegionKind::shared_input, {kAttention, narrow, narrow}}, tokens(256), default_profile());
  ASSERT_EQ(composed.size(), 1u);
  EXPECT_EQ(composed[0].name, "composed");
}

TEST(Region, FeedForwardKeepsTheWideActivationOrComputesItAgain) {
  const std::int64_t count = 4096, wide = count * 3072 * 4;
  const auto plans = plan_region({RegionKind::feed_forward, {kUp, kDown}}, tokens(count), default_profile());
  const RegionPlan &fused = named(plans, "fused"), &composed = named(plans, "composed");
  EXPECT_EQ(plans[0].name, "fused");
  EXPECT_TRUE(fused.row_blocks);
  EXPECT_FALSE(composed.row_blocks);
  EXPECT_EQ(fused.total_multiply_adds - composed.total_multiply_adds, count * 30 * 3072) << "X A B again";
  EXPECT_GE(composed.saved_bytes, 2 * wide);
  EXPECT_LT(fused.saved_bytes, wide / 4);
  EXPECT_LT(fused.peak_bytes, composed.peak_bytes);
  EXPECT_LT(fused.bytes_moved, composed.bytes_moved);
  EXPECT_LT(fused.predicted_seconds, composed.predicted_seconds);
}

TEST(Region, ForwardOnlyRecomputesNothing) {
  Request request = tokens(1024);
  request.results = Results::forward;
  const auto plans = plan_region({RegionKind::feed_forward, {kUp, kDown}}, request, default_profile());
  EXPECT_EQ(named(plans, "fused").total_multiply_adds, named(plans, "composed").total_multiply_adds);
  EXPECT_EQ(named(plans, "composed").saved_bytes, 0);
}

TEST(Region, MemoryLimits) {
  const Region region{RegionKind::feed_forward, {kUp, kDown}};
  Request request = tokens(4096);
  const auto all = plan_region(region, request, default_profile());
  request.memory_limit = named(all, "fused").peak_bytes;
  const auto fitting = plan_region(region, request, default_profile());
  ASSERT_EQ(fitting.size(), 1u);
  EXPECT_EQ(fitting[0].name, "fused");
  request.memory_limit = 1000;
  try {
    plan_region(region, request, default_profile());
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    const auto number = text.find("memory limit of ");
    ASSERT_NE(number, std::string::npos) << text;
    request.memory_limit = std::stoll(text.substr(number + 16));
    EXPECT_FALSE(plan_region(region, request, default_profile()).empty());
  }
}

TEST(Region, LayersThatDoNotFitAreRefused) {
  const Profile profile = default_profile();
  EXPECT_THROW(plan_region({RegionKind::single, {}}, tokens(1), profile), Error);
  EXPECT_THROW(plan_region({RegionKind::shared_input, {kAttention}}, tokens(1), profile), Error);
  EXPECT_THROW(plan_region({RegionKind::shared_input, {kAttention, kDown}}, tokens(1), profile), Error);
  EXPECT_THROW(plan_region({RegionKind::feed_forward, {kUp, kAttention}}, tokens(1), profile), Error);
  EXPECT_THROW(plan_region({RegionKind::feed_forward, {kUp}}, tokens(1), profile), Error);
}
