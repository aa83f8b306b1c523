#include <comera/base/error.h>
#include <comera/train/metrics.h>

#include <gtest/gtest.h>

#include <cmath>

using namespace comera;
using namespace comera::train;

namespace {

MetricSums of(const std::vector<std::pair<int, int>>& target_predicted, std::int64_t classes,
              double nats = 0.5) {
  MetricSums sums(classes);
  for (const auto& [target, predicted] : target_predicted) sums.add(target, predicted, nats);
  return sums;
}

}  // namespace

// 3 true positives, 1 false negative, 2 false positives, 4 true negatives.
TEST(Metrics, TwoClassesByHand) {
  const auto e =
      of({{1, 1}, {1, 1}, {1, 1}, {1, 0}, {0, 1}, {0, 1}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, 2).classifier();
  EXPECT_DOUBLE_EQ(e.find("accuracy").value, 0.7);
  EXPECT_DOUBLE_EQ(e.find("accuracy").baseline, 0.6);
  EXPECT_DOUBLE_EQ(e.find("f1").value, 2 * 3.0 / (2 * 3 + 2 + 1));
  EXPECT_DOUBLE_EQ(e.find("f1").baseline, 2 * 0.4 / 1.4);
  EXPECT_NEAR(e.find("matthews").value, (3 * 4 - 2 * 1) / std::sqrt(5.0 * 4 * 6 * 5), 1e-12);
  EXPECT_NEAR(e.find("loss").baseline, -(0.4 * std::log(0.4) + 0.6 * std::log(0.6)), 1e-12);
  EXPECT_EQ(e.main().name, "accuracy");
}

TEST(Metrics, AConstantAnswerHasTheBaselinesAndNoCorrelation) {
  const auto e = of({{0, 0}, {0, 0}, {1, 0}, {2, 0}}, 3).classifier();
  EXPECT_DOUBLE_EQ(e.find("accuracy").value, e.find("accuracy").baseline);
  EXPECT_DOUBLE_EQ(e.find("f1").value, e.find("f1").baseline);
  EXPECT_EQ(e.find("matthews").value, 0);
}

TEST(Metrics, AllRightIsOne) {
  const auto e = of({{0, 0}, {1, 1}, {2, 2}, {2, 2}}, 3).classifier();
  for (const char* name : {"accuracy", "f1", "matthews"}) EXPECT_DOUBLE_EQ(e.find(name).value, 1) << name;
}

TEST(Metrics, PerplexityOfTokens) {
  const auto e = of({{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 10, std::log(7.0)).tokens();
  EXPECT_NEAR(e.main().value, 7, 1e-9);
  EXPECT_NEAR(e.main().baseline, 4, 1e-9);
  EXPECT_FALSE(e.main().higher_is_better);
}

TEST(Metrics, OneClassAndEmptyAreDefined) {
  const auto e = of({{1, 1}, {1, 1}}, 2).classifier();
  EXPECT_EQ(e.find("matthews").value, 0);
  EXPECT_EQ(e.find("loss").baseline, 0);
  EXPECT_THROW(MetricSums(3).classifier(), Error);
  EXPECT_THROW(MetricSums(3).tokens(), Error);
  EXPECT_THROW(of({{3, 0}}, 3), Error);
}
