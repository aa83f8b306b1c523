#include "memory.h"
#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>
#include <comera/base/text.h>
#include <comera/data/rows.h>

#include <gtest/gtest.h>

#include <sstream>

using namespace comera;
using data::Format;
using data::Row;
using data::RowOptions;

namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows read(const std::string& content, const RowOptions& options, std::vector<std::int64_t>* lines = nullptr) {
  const auto reader = data::open_rows(std::make_unique<std::istringstream>(content), "file", options);
  Rows rows;
  for (Row row; reader->next(row);) {
    rows.push_back(row.fields);
    if (lines) lines->push_back(row.line);
  }
  return rows;
}

std::string error_of(const std::string& content, const RowOptions& options) {
  try {
    read(content, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

RowOptions tsv(std::vector<std::string> columns) {
  return {.columns = std::move(columns), .format = Format::tsv};
}
RowOptions csv(std::vector<std::string> columns) {
  return {.columns = std::move(columns), .format = Format::csv};
}
RowOptions jsonl(std::vector<std::string> columns) {
  return {.columns = std::move(columns), .format = Format::jsonl};
}

}  // namespace

TEST(Tsv, ColumnsByNameInTheOrderAsked) {
  std::vector<std::int64_t> lines;
  EXPECT_EQ(read("a\tb\tc\n1\t2\t3\n4\t\t\n", tsv({"c", "a"}), &lines), (Rows{{"3", "1"}, {"", "4"}}));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{2, 3}));
}

TEST(Tsv, QuotesAreOrdinary) {
  EXPECT_EQ(read("a\tb\n\"x\ty\"\n'\t\"\"\n", tsv({"a", "b"})), (Rows{{"\"x", "y\""}, {"'", "\"\""}}));
}

TEST(Tsv, LineEndsMarkAndEmptyLines) {
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a\tb\r\n1\t2\r\n\r\n\n3\t4",
                 tsv({"a", "b"})),
            (Rows{{"1", "2"}, {"3", "4"}}));
  // With one column an empty line is an empty text.
  EXPECT_EQ(read("a\n1\n\n2\n", tsv({"a"})), (Rows{{"1"}, {""}, {"2"}}));
  // A CR inside a line is an ordinary character.
  EXPECT_EQ(read("a\tb\n1\r2\t3\n", tsv({"a", "b"})), (Rows{{"1\r2", "3"}}));
}

TEST(Tsv, WithoutHeaderColumnsAreNumbered) {
  RowOptions options = tsv({"4", "2"});
  options.header = false;
  EXPECT_EQ(read("a\t1\t*\tx\nb\t0\t\ty\n", options), (Rows{{"x", "1"}, {"y", "0"}}));
  options.columns = {"5"};
  EXPECT_EQ(error_of("a\t1\t*\tx\n", options), "file:1: no column '5'; the columns are 1, 2, 3, 4");
}

TEST(Tsv, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("", tsv({"a"})), "file: is empty");
  EXPECT_EQ(error_of("\xEF\xBB\xBF", tsv({"a"})), "file: is empty");
  EXPECT_EQ(error_of("\n\n", tsv({"a"})), "file: is empty");
  EXPECT_EQ(error_of("label\tsentence\n", tsv({"sentense"})),
            "file:1: no column 'sentense', did you mean 'sentence'; the columns are label, sentence");
  EXPECT_EQ(error_of("a\tb\ta\n", tsv({"a"})), "file:1: two columns are named 'a'");
  EXPECT_EQ(error_of("a\tb\n1\t2\n3\n", tsv({"a"})), "file:3: expected 2 fields, got 1");
  EXPECT_EQ(error_of("a\tb\n1\t2\t3\n", tsv({"a"})), "file:2: expected 2 fields, got 3");
  EXPECT_EQ(error_of("a\n\xC3(\n", tsv({"a"})),
            "file:2: invalid UTF-8 at byte 1 of the line; convert the file to UTF-8");
  EXPECT_EQ(error_of(std::string("a\nb\0c\n", 6), tsv({"a"})),
            "file:2: NUL at byte 2 of the line; is this a text file?");
}

TEST(Tsv, TheLongestRowIsExact) {
  RowOptions options = tsv({"a"});
  options.longest_row = 100'000;
  const std::string longest(100'000, 'x');
  EXPECT_EQ(read("a\n" + longest + "\n", options), (Rows{{longest}}));
  EXPECT_EQ(read("a\n" + longest, options), (Rows{{longest}}));
  EXPECT_EQ(error_of("a\nb\n" + longest + "x\n", options), "file:3: longer than 100000 bytes");
  EXPECT_EQ(error_of("a\n" + longest + "x", options), "file:2: longer than 100000 bytes");
}

TEST(Csv, QuotedFields) {
  std::vector<std::int64_t> lines;
  EXPECT_EQ(read("id,\"the, text\"\r\n1,\"say \"\"hi\"\"\"\r\n2,\"two\r\nlines, "
                 "\"\r\n3,\"\"\n4,\n,\n5,\"a\n\n\"\"\nb\"",
                 csv({"id", "the, text"}), &lines),
            (Rows{{"1", "say \"hi\""},
                  {"2", "two\r\nlines, "},
                  {"3", ""},
                  {"4", ""},
                  {"", ""},
                  {"5", "a\n\n\"\nb"}}));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{2, 3, 5, 6, 7, 8}));
}

TEST(Csv, NamesInMessagesAreShortAndOnOneLine) {
  std::string header = "\"a\nb\"";
  for (int i = 0; i < 30; ++i) header += ",c" + std::to_string(i);
  header += "," + std::string(100, 'd');
  const std::string message = error_of(header + "\n", csv({"x"}));
  EXPECT_NE(message.find("the columns are a\\x0ab, c0, c1"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("c18 and 12 more")) << message;
  std::string accents = "z";
  for (int i = 0; i < 50; ++i) accents += "\xC3\xA9";
  const std::string longest = error_of(accents + "\n", csv({"x"}));
  EXPECT_NE(longest.find("..."), std::string::npos);
  EXPECT_FALSE(invalid_utf8(longest));
}

TEST(Csv, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("a,b\n1,\"x\n\ny", csv({"a"})),
            "file:2: a quoted field is not closed before the end of the file");
  EXPECT_EQ(error_of("a,b\n1,\"", csv({"a"})),
            "file:2: a quoted field is not closed before the end of the file");
  EXPECT_EQ(error_of("a,b\n1,\"x\"y\n", csv({"a"})),
            "file:2: text after a closing quote; write a quote inside a field as \"\"");
  EXPECT_EQ(error_of("a,b\n1,5\" disk\n", csv({"a"})),
            "file:2: a quote inside a field that does not begin with one; write \"...\"\"...\" (RFC 4180)");
  EXPECT_EQ(error_of("a,b\n1,2,3\n", csv({"a"})), "file:2: expected 2 fields, got 3");
  RowOptions options = csv({"a"});
  options.longest_row = 50;
  EXPECT_EQ(error_of("a,b\n1,\"x\n" + std::string(30, 'y') + "\n" + std::string(30, 'z') + "\n", options),
            "file:2: a row longer than 50 bytes; is the quote of this line closed?");
}

TEST(Jsonl, ValuesOfTopLevelKeys) {
  EXPECT_EQ(read(R"({"b": {"a": 1}, "a": "x\u00e9\n", "n": 3})"
                 "\r\n\n"
                 R"(  {"n": -2, "a": true, "c": [{"a": null}, [[]]]} )",
                 jsonl({"a", "n"})),
            (Rows{{"x\xC3\xA9\n", "3"}, {"true", "-2"}}));
  EXPECT_EQ(read(R"({"a": 0.10, "n": 12345678901234567890})", jsonl({"a", "n"})),
            (Rows{{"0.10", "12345678901234567890"}}));
}

TEST(Jsonl, DeepNestingOfOtherValuesIsPassedOver) {
  const std::string deep = "{\"b\": " + std::string(400'000, '[') + std::string(400'000, ']') + ", \"a\": 1}";
  EXPECT_EQ(read(deep, jsonl({"a"})), (Rows{{"1"}}));
}

TEST(Jsonl, ErrorsNameFileAndLine) {
  const auto options = jsonl({"label"});
  EXPECT_EQ(error_of("", options), "file: is empty");
  EXPECT_EQ(error_of("{\"label\": 1}\n{\"lable\": 1, \"x\": 2}", options),
            "file:2: no key 'label', did you mean 'lable'; the keys are lable, x");
  EXPECT_EQ(error_of("{\"label\": null}", options),
            "file:1: the value of 'label' is null, expected text or a number");
  EXPECT_EQ(error_of("{\"label\": [1]}", options),
            "file:1: the value of 'label' is a list, expected text or a number");
  EXPECT_EQ(error_of("{\"label\": {}}", options),
            "file:1: the value of 'label' is an object, expected text or a number");
  EXPECT_EQ(error_of("{\"label\": 1, \"label\": 2}", options), "file:1: has the key 'label' twice");
  EXPECT_EQ(error_of("{\"label\": \"\\u0000\"}", options), "file:1: NUL in the value of 'label'");
  for (const char* other : {"[1]", "3", "\"label\"", "null", "[{\"label\": 1}]"})
    EXPECT_EQ(error_of(other, options), "file:1: is not a JSON object") << other;
  for (const char* broken : {"{", "{\"label\": 1", "{\"label\": 1} x", "{\"label\": \"\\ud800\"}",
                             "{label: 1}", "{\"label\": 1,}", "{\"label\": NaN}"})
    EXPECT_NE(error_of(broken, options).find("file:1: not valid JSON near byte"), std::string::npos)
        << broken;
}

TEST(Rows, FormatByExtension) {
  EXPECT_EQ(data::format_of("a/b.tsv"), Format::tsv);
  EXPECT_EQ(data::format_of("multinli_1.0_train.txt"), Format::tsv);
  EXPECT_EQ(data::format_of("b.csv"), Format::csv);
  EXPECT_EQ(data::format_of("b.jsonl"), Format::jsonl);
  EXPECT_THROW(data::format_of("b.gz"), Error);
  EXPECT_THROW(data::parse_format("xml"), Error);
  for (const Format format : {Format::tsv, Format::csv, Format::jsonl})
    EXPECT_EQ(data::parse_format(data::to_string(format)), format);
}

TEST(Rows, FilesThatCannotBeOpened) {
  test::TemporaryFolder folder;
  EXPECT_THROW(data::open_rows(folder / "none.tsv", tsv({"a"})), Error);
  EXPECT_THROW(data::open_rows(folder.path(), tsv({"a"})), Error);
}

// Random records survive being written by the rules of each format and read back.
TEST(Rows, RandomRecordsComeBack) {
  const std::uint64_t seed = 20;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  const std::string alphabet = "ab,\"\n\r\t '";
  for (int round = 0; round < 300; ++round) {
    Rows rows;
    std::string as_csv = "x,y,z\n";
    for (int i = 0; i < 5; ++i) {
      rows.emplace_back();
      for (int j = 0; j < 3; ++j) {
        std::string field, quoted;
        for (auto k = random.below(6); k > 0; --k) field += alphabet[random.below(alphabet.size())];
        for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
        const bool plain = field.find_first_of("\",\n\r") == std::string::npos && random.below(2) == 0;
        if (j > 0) as_csv += ',';
        as_csv += plain ? field : '"' + quoted + '"';
        rows.back().push_back(field);
      }
      as_csv += random.below(2) == 0 ? "\n" : "\r\n";
    }
    ASSERT_EQ(read(as_csv, csv({"x", "y", "z"})), rows) << as_csv;
  }
}

TEST(Rows, MemoryIsBoundedByTheLongestRow) {
  test::TemporaryFolder folder;
  {
    AtomicFile file(folder / "big.tsv");
    file.write("text\tlabel\n");
    const std::string row = std::string(1000, 'x') + "\t1\n";
    for (int i = 0; i < 100'000; ++i) file.write(row);
    file.commit();
  }
  const test::PeakMemory peak;
  const auto reader = data::open_rows(folder / "big.tsv", tsv({"text"}));
  std::int64_t rows = 0;
  for (Row row; reader->next(row);) ++rows;
  EXPECT_EQ(rows, 100'000);
  EXPECT_EQ(reader->bytes_read(), 11 + 100'000 * 1'003);
  EXPECT_LT(peak.growth(), 10e6);
}
