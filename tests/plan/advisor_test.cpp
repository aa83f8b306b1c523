#include <comera/base/error.h>
#include <comera/plan/advisor.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::plan;

TEST(Advisor, SuggestionsMeetTheBudgetAndNoneIsBeaten) {
  AdvisorRequest request{768, 768, 4096};
  request.parameters = 21'000;
  const auto found = advise(request, default_profile());
  ASSERT_GT(found.size(), 3u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Suggestion& one = found[i];
    EXPECT_EQ(one.shape.rows, 768);
    EXPECT_EQ(one.shape.cols, 768);
    EXPECT_EQ(one.parameters, one.shape.parameters());
    EXPECT_LE(one.parameters, request.parameters);
    EXPECT_EQ(one.middle_rank, one.shape.rank(one.shape.split() - 1));
    Request layer{{one.shape}, request.tokens};
    EXPECT_NEAR(one.predicted_seconds, make_plan(layer, default_profile()).predicted_seconds,
                1e-9 * one.predicted_seconds);
    EXPECT_GE(one.parameters, found[i > 0 ? i - 1 : 0].parameters);
    for (const Suggestion& other : found)
      EXPECT_FALSE(other.parameters < one.parameters && other.predicted_seconds < one.predicted_seconds &&
                   other.middle_rank > one.middle_rank);
  }
  // The reference shape is within the budget, so something at least as good is suggested.
  bool as_good = false;
  for (const Suggestion& one : found) as_good = as_good || one.middle_rank >= 30;
  EXPECT_TRUE(as_good) << to_string(found);
  EXPECT_EQ(to_json(found).size(), found.size());
}

TEST(Advisor, TimeBudgets) {
  AdvisorRequest request{768, 3072, 1024};
  request.seconds = 20e-3;
  const auto found = advise(request, default_profile());
  for (const Suggestion& one : found) EXPECT_LE(one.predicted_seconds, request.seconds);
  request.seconds /= 2;
  const auto less = advise(request, default_profile());
  const auto largest = [](const std::vector<Suggestion>& all) {
    std::int64_t rank = 0;
    for (const Suggestion& one : all) rank = std::max(rank, one.middle_rank);
    return rank;
  };
  EXPECT_LT(largest(less), largest(found));
}

TEST(Advisor, WidthsThatSplitBadlyAreSaid) {
  AdvisorRequest request{509, 64, 128};
  request.parameters = 100'000;
  const auto found = advise(request, default_profile());
  for (const Suggestion& one : found) EXPECT_EQ(one.shape.row_digits, (std::vector<std::int64_t>{509}));
}

TEST(Advisor, WhatCannotBeIsRefused) {
  const Profile profile = default_profile();
  EXPECT_THROW(advise({768, 768}, profile), Error);
  AdvisorRequest request{768, 768, 64};
  request.parameters = 10;
  try {
    advise(request, profile);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    const auto at = text.find("the smallest has ");
    ASSERT_NE(at, std::string::npos) << text;
    request.parameters = std::stoll(text.substr(at + 17));
    EXPECT_FALSE(advise(request, profile).empty());
  }
  request.parameters = 0;
  request.seconds = 1e-9;
  EXPECT_THROW(advise(request, profile), Error);
  request.in = 0;
  EXPECT_THROW(advise(request, profile), Error);
}
