#include <comera/base/error.h>
#include <comera/exec/plan_book.h>

#include <gtest/gtest.h>

using namespace comera;
using exec::LayerUse, exec::PlanBook;

namespace {

const format::Shape kLayer = format::tt({12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12});

// A machine on which only the number of operations counts, or only multiply-adds do.
plan::Profile machine(double start_seconds) {
  plan::Profile profile = plan::default_profile();
  for (auto* table : {&profile.single, &profile.batched})
    for (double& rate : table->rates) rate = 1e10;
  profile.start_seconds = start_seconds;
  profile.bandwidth = profile.copy_bandwidth = 1e14;
  return profile;
}

}  // namespace

TEST(PlanBook, ManyTokensRunInTwoGroupsAndFewByAPlan) {
  PlanBook book(machine(1e-12));
  EXPECT_EQ(book.find({kLayer, 4096}), nullptr);
  const auto plan = book.find({kLayer, 8});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->request.tokens, 8);
  EXPECT_LT(plan->predicted_seconds, exec::two_groups_seconds({kLayer, 8}, machine(1e-12)));
  EXPECT_GT(book.take_seconds(), 0);
  EXPECT_EQ(book.take_seconds(), 0);
  EXPECT_EQ(book.take_news().size(), 2u);
  EXPECT_EQ(book.find({kLayer, 7}), plan) << "one bucket";
  EXPECT_EQ(book.take_news().size(), 0u);
}

// Factors that serve more layers and forwards cost each of them less.
TEST(PlanBook, FactorsBuiltOnceAreShared) {
  const auto profile = machine(1e-12);
  const double alone = exec::two_groups_seconds({kLayer, 8, 1, 1}, profile),
               forwards = exec::two_groups_seconds({kLayer, 8, 1, 100}, profile);
  EXPECT_LT(forwards, alone / 2);
  const auto slow_start = machine(1e-3);
  EXPECT_LT(exec::two_groups_seconds({kLayer, 8, 24, 1}, slow_start),
            exec::two_groups_seconds({kLayer, 8, 1, 1}, slow_start));
  PlanBook book(profile);
  EXPECT_NE(book.find({kLayer, 16, 1, 1}), nullptr);
  EXPECT_EQ(book.find({kLayer, 16, 1, 1000}), nullptr);
}

TEST(PlanBook, WhatIsSavedIsUsedAgainOnAnotherMachine) {
  format::Shape padded = kLayer;
  padded.rows = 760;
  PlanBook first(machine(1e-12)), second(machine(1e-3)), fresh(machine(1e-3));
  const auto plan = first.find({padded, 8});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(first.find({kLayer, 4096}), nullptr);
  second.load(first.save(), "test");
  ASSERT_NE(second.find({padded, 8}), nullptr);
  EXPECT_EQ(*second.find({padded, 8}), *plan);
  EXPECT_EQ(second.find({kLayer, 4096}), nullptr);
  EXPECT_TRUE(second.take_news().empty()) << "nothing was planned again";
  PlanBook only_profile(machine(1e-3));
  Json no_plans = first.save();
  no_plans["plans"].clear();
  only_profile.load(no_plans, "test");
  EXPECT_EQ(*only_profile.find({padded, 8}), *plan) << "the profile is kept too";
  const auto other = fresh.find({padded, 8});
  EXPECT_TRUE(!other || !(*other == *plan)) << "the other machine would have chosen another";
  EXPECT_EQ(second.save(), first.save());

  second.keep_only({format::tt({2, 3}, {4, 5}, {2})});
  EXPECT_TRUE(second.save()["plans"].empty());
  first.keep_only({padded});
  EXPECT_EQ(first.save()["plans"].size(), 2u) << "padding is not part of a plan";
}

TEST(PlanBook, RefusesWhatIsNoBook) {
  PlanBook book(machine(1e-12));
  book.find({kLayer, 8});
  const Json good = book.save();
  PlanBook other(machine(1e-12));
  Json bad = good;
  bad["plans"][0]["plan"]["total_multiply_adds"] = 1;
  EXPECT_THROW(other.load(bad, "test"), Error);
  bad = good;
  bad["plans"][0].erase("layers");
  EXPECT_THROW(other.load(bad, "test"), Error);
  bad = good;
  bad["profile"]["start_seconds"] = -1;
  EXPECT_THROW(other.load(bad, "test"), Error);
  EXPECT_THROW(other.load(Json::object(), "test"), Error);
  EXPECT_TRUE(other.save()["plans"].empty()) << "as it was";
}
