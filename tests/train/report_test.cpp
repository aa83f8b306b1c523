#include "test_data.h"

#include <comera/base/file.h>
#include <comera/train/report.h>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace comera;
using namespace comera::train;

namespace {

StepRecord record(std::int64_t step) {
  StepRecord r;
  r.step = step, r.loss = 1.5, r.seconds = 0.25, r.tokens = 100, r.parameters = 1'210'000, r.compression = 55,
  r.median_rank = 30;
  r.peak_bytes = 212'000'000;
  return r;
}

std::int64_t lines(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST(RunLog, AResumedRunReadsAsOne) {
  test::TemporaryFolder folder;
  {
    RunLog log(folder.path(), 0);
    for (std::int64_t i = 1; i <= 5; ++i) log.step(record(i));
    log.event(5, "cut", {{"layer", "x"}});
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << "{\"step\": 6, \"lo";  // cut short by a kill
  std::ofstream(folder / "metrics.csv", std::ios::app) << "6,1.";
  {
    RunLog log(folder.path(), 3);
    log.step(record(4));
  }
  EXPECT_EQ(lines(folder / "metrics.jsonl"), 4);
  EXPECT_EQ(lines(folder / "metrics.csv"), 5);
  EXPECT_EQ(lines(folder / "events.jsonl"), 0);
  std::istringstream text(read_file(folder / "metrics.jsonl"));
  std::int64_t expected = 1;
  for (std::string line; std::getline(text, line); ++expected) EXPECT_EQ(Json::parse(line)["step"], expected);
}

TEST(ProgressLine, SaysWhatPeopleAskFor) {
  ProgressLine progress(100);
  progress.add(record(1));
  EXPECT_EQ(progress.add(record(2)),
            "step 2/100  loss 1.500  acc 0.000  0.250 s  400 tok/s  params 1.21M (55.0x)  rank 30  "
            "peak 212.0 MB  eta 25s");
}

TEST(Median, EvenOddAndEmpty) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}
