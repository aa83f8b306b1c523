#include <comera/base/error.h>
#include <comera/optim/schedule.h>

#include <gtest/gtest.h>

namespace comera::optim {
namespace {

TEST(Schedule, WarmsUpFromTheFirstStep) {
  const Schedule schedule{.warm_up = 4, .decay = Decay::constant};
  EXPECT_DOUBLE_EQ(factor(schedule, 0, 10), 0.25);
  EXPECT_DOUBLE_EQ(factor(schedule, 3, 10), 1.0);
  EXPECT_DOUBLE_EQ(factor(schedule, 9, 10), 1.0);
}

TEST(Schedule, LinearAndCosineFallToTheFloor) {
  const Schedule linear{.warm_up = 2, .decay = Decay::linear, .floor = 0.1};
  EXPECT_DOUBLE_EQ(factor(linear, 2, 12), 1.0);
  EXPECT_DOUBLE_EQ(factor(linear, 7, 12), 0.1 + 0.9 * 0.5);
  EXPECT_DOUBLE_EQ(factor(linear, 11, 12), 0.1 + 0.9 * 0.1);
  const Schedule cosine{.warm_up = 0, .decay = Decay::cosine};
  EXPECT_DOUBLE_EQ(factor(cosine, 0, 10), 1.0);
  EXPECT_NEAR(factor(cosine, 5, 10), 0.5, 1e-15);
  EXPECT_GT(factor(cosine, 9, 10), 0.0);
}

TEST(Schedule, NeverZeroWithinARunAndHoldsItsLastValueAfterIt) {
  for (const Decay decay : {Decay::constant, Decay::linear, Decay::cosine})
    for (const std::int64_t total : {1, 2, 7})
      for (const std::int64_t warm_up : {0, 1, 7, 20}) {
        const Schedule schedule{.warm_up = warm_up, .decay = decay};
        for (std::int64_t step = 0; step < total; ++step) {
          EXPECT_GT(factor(schedule, step, total), 0) << to_string(decay) << " " << step << "/" << total;
          EXPECT_LE(factor(schedule, step, total), 1);
        }
        EXPECT_EQ(factor(schedule, total + 5, total), factor(schedule, total - 1, total));
      }
}

TEST(Schedule, NamesAreReadBackAndOthersRefused) {
  for (const Decay decay : {Decay::constant, Decay::linear, Decay::cosine})
    EXPECT_EQ(parse_decay(to_string(decay)), decay);
  EXPECT_THROW(parse_decay("cosin"), Error);
  EXPECT_THROW(factor({}, -1, 3), Error);
  EXPECT_THROW(factor({}, 0, 0), Error);
}

}  // namespace
}  // namespace comera::optim
