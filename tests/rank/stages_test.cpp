#include "stages.h"

#include <comera/base/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace comera::rank {
namespace {

TEST(Stages, PriceRisesFromATenthToAFifthOfTheRun) {
  const Options options;
  EXPECT_EQ(price_ramp(options, 0.05), 0);
  EXPECT_NEAR(price_ramp(options, 0.15), 0.5, 1e-12);
  EXPECT_EQ(price_ramp(options, 0.5), 1);
  EXPECT_EQ(price_ramp({.price_from = 0, .price_full = 0}, 0.001), 1);
}

TEST(Stages, BudgetFallsCubicallyAndEndsAtTheTarget) {
  EXPECT_EQ(budget_at(0, 1000, 200), 1000);
  EXPECT_EQ(budget_at(0.5, 1000, 200), 300);
  EXPECT_EQ(budget_at(1, 1000, 200), 200);
  EXPECT_EQ(budget_at(7, 1000, 200), 200);
  EXPECT_EQ(budget_at(0.1, 100, 200), 200);
  std::int64_t before = 1000;
  for (double over = 0; over <= 1; over += 0.01) {
    EXPECT_LE(budget_at(over, 1000, 200), before);
    before = budget_at(over, 1000, 200);
  }
}

TEST(Stages, WorksOnTheGoalThatIsFurtherAway) {
  LateStage late = LateStage::begin(1.0, 1.0, 0.25, 0.75, false, 100);
  EXPECT_DOUBLE_EQ(late.loss_weight, 50);
  EXPECT_DOUBLE_EQ(late.size_weight, 2);
  EXPECT_EQ(late.phase, Phase::size);
  EXPECT_NEAR(late.price(), 21, 1e-9);
  EXPECT_FALSE(late.decide(1.01, 0.75, 120));  // distances 0.5 and 1
  EXPECT_TRUE(late.decide(1.03, 0.75, 140));   // 1.5 and 1
  EXPECT_EQ(late.phase, Phase::loss);
  EXPECT_NEAR(late.price(), 0.1 / 50.1, 1e-12);
  EXPECT_EQ(late.since, 140);
  EXPECT_FALSE(late.decide(1.0195, 0.75, 160));  // 0.975 and 1: within the hysteresis
  EXPECT_TRUE(late.decide(1.01, 0.75, 180));
}

TEST(Stages, WithoutASizeTargetTheLossAloneDecides) {
  LateStage late = LateStage::begin(1.0, 1.5, 0, 1, true, 0);
  EXPECT_EQ(late.phase, Phase::loss);
  EXPECT_DOUBLE_EQ(late.loss_weight, 2);
  EXPECT_TRUE(late.decide(0.9, 1, 20));
  EXPECT_EQ(late.phase, Phase::size);
  EXPECT_TRUE(late.decide(1.1, 1, 40));
}

TEST(Stages, DegenerateTargetsStayFinite) {
  const LateStage at_target = LateStage::begin(0, 0, 0.5, 0.5, false, 0);
  EXPECT_TRUE(std::isfinite(at_target.price()));
  EXPECT_TRUE(std::isfinite(at_target.loss_weight));
  LateStage copy;
  copy.load(parse_json(at_target.save().dump(), "saved"));
  EXPECT_EQ(copy.save(), at_target.save());
}

TEST(Options, NamesAndRanges) {
  EXPECT_EQ(parse_rule("published"), Rule::published);
  EXPECT_THROW(parse_rule("publish"), Error);
  EXPECT_NO_THROW(validate({}));
  EXPECT_THROW(validate({.gamma = -1}), Error);
  EXPECT_THROW(validate({.gamma = std::nan("")}), Error);
  EXPECT_THROW(validate({.target_parameters = 5, .target_bytes = 5}), Error);
  EXPECT_THROW(validate({.price_from = 0.3, .price_full = 0.2}), Error);
  EXPECT_THROW(validate({.early_end = 1.5}), Error);
  EXPECT_THROW(validate({.cut_every = 0}), Error);
  EXPECT_EQ(scale_learning_rate(100), 0.04);
  EXPECT_EQ(scale_learning_rate(1'000'000), 1e-3);
}

}  // namespace
}  // namespace comera::rank
