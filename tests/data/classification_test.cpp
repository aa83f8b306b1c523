#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/classification.h>

#include <gtest/gtest.h>

using namespace comera;
using data::ClassificationReader;
using data::ClassificationSource;
using data::Example;
using data::LabelMap;

namespace {

struct Counted {
  std::vector<std::int64_t> labels;
  std::int64_t dropped = 0;
  Example first, last;
};

Counted count(const ClassificationSource& source, const LabelMap& labels) {
  ClassificationReader reader(source, labels);
  Counted counted;
  counted.labels.resize(labels.size());
  bool any = false;
  for (Example example; reader.next(example);) {
    ++counted.labels[example.label];
    if (!any) counted.first = example;
    counted.last = example;
    any = true;
  }
  counted.dropped = reader.dropped();
  return counted;
}

template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

using Names = std::vector<std::string>;
using Counts = std::vector<std::int64_t>;

}  // namespace

// The counts are those of the data sets' own description.
TEST(Presets, Nli) {
  COMERA_DATA_FILE(path, "nli/multinli_dev_matched.tsv");
  const auto source = data::preset_source("nli", path);
  const LabelMap labels = data::find_labels(source);
  EXPECT_EQ(labels.names(), (Names{"contradiction", "entailment", "neutral"}));
  EXPECT_EQ(count(source, labels).labels, (Counts{3210, 3476, 3120}));
}

TEST(Presets, Sst2) {
  COMERA_DATA_FILE(path, "sst2/dev.tsv");
  const auto source = data::preset_source("sst2", path);
  const Counted counted = count(source, data::find_labels(source));
  EXPECT_EQ(counted.labels, (Counts{428, 444}));
  EXPECT_EQ(counted.first.first, "it 's a charming and often affecting journey . ");
  EXPECT_EQ(counted.first.second, "");
  EXPECT_EQ(counted.first.line, 2);
}

TEST(Presets, Mrpc) {
  COMERA_DATA_FILE(path, "mrpc/train.tsv");
  const auto source = data::preset_source("mrpc", path);
  EXPECT_EQ(count(source, data::find_labels(source)).labels, (Counts{3573 - 2407, 2407}));
}

TEST(Presets, ColaWithoutHeader) {
  COMERA_DATA_FILE(path, "cola/dev.tsv");
  const auto source = data::preset_source("cola", path);
  const Counted counted = count(source, data::find_labels(source));
  EXPECT_EQ(counted.labels, (Counts{1043 - 721, 721}));
  EXPECT_EQ(counted.first.first, "The sailors rode the breeze clear of the rocks.");
  EXPECT_EQ(counted.first.line, 1);
  EXPECT_EQ(counted.last.line, 1043);
}

TEST(Presets, MultiNliDropsAndCountsRowsWithoutConsensus) {
  test::TemporaryFolder folder;
  write_file(
      folder / "dev.jsonl",
      R"({"annotator_labels": ["neutral"], "gold_label": "neutral", "sentence1": "a", "sentence2": "b"})"
      "\n"
      R"({"annotator_labels": [], "gold_label": "-", "sentence1": "c", "sentence2": "d"})"
      "\n"
      R"({"annotator_labels": [], "gold_label": "entailment", "sentence1": "e", "sentence2": "f"})"
      "\n");
  write_file(folder / "dev.txt",
             "gold_label\tsentence1_parse\tsentence1\tsentence2\n"
             "neutral\t(ROOT)\ta\tb\n-\t(ROOT)\tc\td\nentailment\t(ROOT)\te\tf\n");
  for (const char* name : {"dev.jsonl", "dev.txt"}) {
    const auto source = data::preset_source("multinli", folder / name);
    const LabelMap labels = data::find_labels(source);
    EXPECT_EQ(labels.names(), (Names{"entailment", "neutral"}));
    const Counted counted = count(source, labels);
    EXPECT_EQ(counted.labels, (Counts{1, 1}));
    EXPECT_EQ(counted.dropped, 1);
    EXPECT_EQ(counted.last.first, "e");
    EXPECT_EQ(counted.last.second, "f");
  }
}

TEST(Presets, AnUnknownNameIsAnErrorWithTheNearest) {
  EXPECT_EQ(error_of([] { data::preset_source("mnli", "a.tsv"); }),
            "unknown data preset 'mnli', did you mean 'nli'; the presets are nli, multinli, sst2, mrpc, rte, "
            "qnli, cola");
}

TEST(Labels, IntegersAreSortedAsNumbersAndOthersByBytes) {
  test::TemporaryFolder folder;
  ClassificationSource source{.path = folder / "a.tsv", .text = {"t"}, .label = "l"};
  write_file(source.path, "l\tt\n10\ta\n9\tb\n-1\tc\n10\td\n");
  EXPECT_EQ(data::find_labels(source).names(), (Names{"-1", "9", "10"}));
  write_file(source.path, "l\tt\n10\ta\n9\tb\nx\tc\n10\td\n");
  EXPECT_EQ(data::find_labels(source).names(), (Names{"10", "9", "x"}));
}

TEST(Labels, MapsThatCannotBeAreRefused) {
  EXPECT_THROW(LabelMap({"a"}), Error);
  EXPECT_THROW(LabelMap({"a", "b", "a"}), Error);
  EXPECT_THROW(LabelMap({"a", ""}), Error);
  const LabelMap map({"b", "a"});
  EXPECT_EQ(map.index("b"), 0);
  EXPECT_EQ(map.index("c"), -1);
}

TEST(Classification, ErrorsNameFileAndLine) {
  test::TemporaryFolder folder;
  const ClassificationSource source{.path = folder / "a.tsv", .text = {"t"}, .label = "l"};
  const std::string file = source.path.string();
  const auto read = [&] { count(source, LabelMap({"yes", "no"})); };
  const auto find = [&] { data::find_labels(source); };
  write_file(source.path, "l\tt\nyes\ta\nmaybe\tb\n");
  EXPECT_EQ(error_of(read), file + ":3: unknown label 'maybe'; the labels are yes, no");
  write_file(source.path, "l\tt\n");
  EXPECT_EQ(error_of(read), file + ": has no rows");
  EXPECT_EQ(error_of(find), file + ": 0 different labels in column 'l'; a classifier needs two or more");
  write_file(source.path, "l\tt\nyes\ta\n\ta\n");
  EXPECT_EQ(error_of(find), file + ":3: the label is empty");
  std::string many = "l\tt\n";
  for (int i = 0; i <= 10'000; ++i) many += std::to_string(i) + "\tx\n";
  write_file(source.path, many);
  EXPECT_EQ(error_of(find), file + ":10002: more than 10000 different labels; is 'l' the label column?");
}

TEST(Classification, AFileWithoutLabelsHasLabelMinusOne) {
  test::TemporaryFolder folder;
  write_file(folder / "a.csv", "first,second\n\"a, b\",c\n");
  const ClassificationSource source{.path = folder / "a.csv", .text = {"first", "second"}};
  ClassificationReader reader(source, {});
  Example example;
  ASSERT_TRUE(reader.next(example));
  EXPECT_EQ(example.first, "a, b");
  EXPECT_EQ(example.second, "c");
  EXPECT_EQ(example.label, -1);
  EXPECT_FALSE(reader.next(example));
  EXPECT_THROW(data::find_labels(source), Error);
}
