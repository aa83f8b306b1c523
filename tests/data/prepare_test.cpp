#include "memory.h"
#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/base/random.h>
#include <comera/data/prepare.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

using namespace comera;
using data::Dataset;
using data::PrepareOptions;
namespace fs = std::filesystem;

namespace {

// A token a letter or other byte, ids from 10; spaces separate and have none.
class Letters : public data::Tokenizer {
 public:
  explicit Letters(std::string state = "letters") : state_(std::move(state)) {}
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (const char c : text)
      if (c != ' ') ids.push_back(10 + static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const auto id : ids)
      if (id >= 10) text += static_cast<char>(id - 10);
    return text;
  }
  std::int64_t vocabulary_size() const override { return 266; }
  data::SpecialTokens special() const override { return {0, 1, 2, 3, 4}; }
  std::string kind() const override { return "letters"; }
  std::string state() const override { return state_; }

 private:
  std::string state_;
};

// "^ab|cd|" for [CLS] a b [SEP] c d [SEP].
std::string shown(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const auto id : tokens) text += id == 2 ? '^' : id == 3 ? '|' : static_cast<char>(id - 10);
  return text;
}

std::vector<std::string> shown(const Dataset& dataset) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto sample = dataset[i];
    all.push_back(fmt::format("{}:{}:{}", shown(sample.tokens), sample.first_segment, sample.label));
  }
  return all;
}

Json description(const Dataset& dataset) { return parse_json(dataset.description(), "description"); }

class Prepare : public testing::Test {
 protected:
  Prepare() {
    options_.cache = folder_ / "cache";
    options_.max_length = 10;
    options_.warn = [this](const std::string& text) { warnings_.push_back(text); };
    options_.progress = [this](const data::PrepareProgress& progress) { reports_.push_back(progress); };
    write_file(folder_ / "pairs.tsv",
               "label\tpremise\thypothesis\nyes\tab\tcd\nno\tefghijklm\tno\nyes\tqrstuv\twxyzab\n");
  }
  Dataset pairs() {
    return data::prepare_classification(data::preset_source("nli", folder_ / "pairs.tsv"), labels_,
                                        tokenizer_, options_);
  }
  std::int64_t built() const { return static_cast<std::int64_t>(reports_.size()); }
  std::vector<std::string> cache_files(const std::string& with = "") const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.cache)) {
      const std::string name = entry.path().filename().string();
      if (name != "lock" && name.find(with) != std::string::npos) names.push_back(name);
    }
    return names;
  }

  test::TemporaryFolder folder_;
  PrepareOptions options_;
  Letters tokenizer_;
  data::LabelMap labels_;
  std::vector<std::string> warnings_;
  std::vector<data::PrepareProgress> reports_;
};

}  // namespace

TEST_F(Prepare, PairsAreEncodedAndTheLongerTextIsCutFirst) {
  const Dataset dataset = pairs();
  EXPECT_EQ(shown(dataset), (std::vector<std::string>{"^ab|cd|:4:1", "^efghi|no|:7:0", "^qrst|wxy|:6:1"}));
  const Json about = description(dataset);
  EXPECT_EQ(about["labels"], (Json{"no", "yes"}));
  EXPECT_EQ(about["cut"], 2);
  EXPECT_EQ(about["dropped"], 0);
  EXPECT_EQ(about["sources"][0]["hash"], hex(hash_file(folder_ / "pairs.tsv")));
  EXPECT_EQ(data::labels_of(dataset).names(), (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(reports_.back().samples, 3);
  EXPECT_EQ(reports_.back().bytes, fs::file_size(folder_ / "pairs.tsv"));
  EXPECT_EQ(reports_.back().total_bytes, reports_.back().bytes);
}

TEST(Encode, PairsAreCutTokenByTokenFromTheLongerOne) {
  const Letters tokenizer;
  for (std::size_t a = 0; a < 9; ++a)
    for (std::size_t b = 0; b < 9; ++b)
      for (std::int64_t max_length = 5; max_length < 20; ++max_length) {
        std::size_t left_a = a, left_b = b;
        while (static_cast<std::int64_t>(left_a + left_b) > max_length - 3)
          --(left_a > left_b ? left_a : left_b);
        const auto pair = data::encode_pair(tokenizer, std::string(a, 'a'), std::string(b, 'b'), max_length);
        EXPECT_EQ(shown(pair.tokens), fmt::format("^{:a>{}}|{:b>{}}|", "", left_a, "", left_b));
        EXPECT_EQ(pair.first_segment, left_a + 2);
        EXPECT_EQ(pair.cut, left_a + left_b < a + b);
      }
  EXPECT_THROW(data::encode_pair(tokenizer, "a", "b", 4), Error);
}

TEST(Encode, OneText) {
  const Letters tokenizer;
  EXPECT_EQ(shown(data::encode_text(tokenizer, "abc", 5).tokens), "^abc|");
  EXPECT_FALSE(data::encode_text(tokenizer, "abc", 5).cut);
  const auto cut = data::encode_text(tokenizer, "abc", 4);
  EXPECT_EQ(shown(cut.tokens), "^ab|");
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(cut.first_segment, 4);
  EXPECT_EQ(shown(data::encode_text(tokenizer, "", 4).tokens), "^|");
  EXPECT_THROW(data::encode_text(tokenizer, "a", 2), Error);
}

TEST_F(Prepare, TheSecondTimeTheFileIsFound) {
  const auto first = pairs().content_hash();
  const auto once = built();
  EXPECT_GT(once, 0);
  EXPECT_EQ(pairs().content_hash(), first);
  EXPECT_EQ(built(), once);
  EXPECT_EQ(cache_files().size(), 1);
}

TEST_F(Prepare, EachThingItDependsOnMakesAnotherFile) {
  pairs();
  std::size_t files = 1;
  const auto expect_new = [&](const char* what) {
    pairs();
    EXPECT_EQ(cache_files().size(), ++files) << what;
  };
  options_.max_length = 11;
  expect_new("max_length");
  tokenizer_ = Letters("another state");
  expect_new("tokenizer");
  labels_ = data::LabelMap({"yes", "no"});
  expect_new("labels");
  write_file(folder_ / "pairs.tsv", "label\tpremise\thypothesis\nyes\ta\tb\nno\tc\td\n");
  expect_new("content");
  EXPECT_EQ(shown(pairs()), (std::vector<std::string>{"^a|b|:3:0", "^c|d|:3:1"}));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Prepare, ADamagedFileIsBuiltAgainWithOneWarning) {
  const auto good = shown(pairs());
  const fs::path path = options_.cache / cache_files().front();
  for (const char* damage : {"", "truncated", "flipped", "foreign"}) {
    std::string bytes = read_file(path);
    if (std::string_view(damage) == "truncated") bytes.resize(bytes.size() / 2);
    if (std::string_view(damage) == "flipped") bytes[bytes.size() / 2] ^= 1;
    if (std::string_view(damage) == "foreign") bytes = "something else";
    if (std::string_view(damage) == "") bytes.clear();
    std::ofstream(path, std::ios::binary) << bytes;
    warnings_.clear();
    EXPECT_EQ(shown(pairs()), good) << damage;
    ASSERT_EQ(warnings_.size(), 1) << damage;
    EXPECT_NE(warnings_[0].find(path.string()), std::string::npos);
  }
}

TEST_F(Prepare, PreparedDataOfAnotherKeyIsNotUsed) {
  const auto good = shown(pairs());
  const fs::path path = options_.cache / cache_files().front();
  {
    data::DatasetWriter writer(path);
    writer.add({std::vector<std::int32_t>{1}, 0, 0});
    writer.commit(R"({"key": {"kind": "classification"}})");
  }
  EXPECT_EQ(shown(pairs()), good);
  EXPECT_EQ(warnings_.size(), 1);
}

TEST_F(Prepare, AnErrorInTheSourceLeavesNothing) {
  write_file(folder_ / "pairs.tsv", "label\tpremise\thypothesis\nyes\tab\tcd\nno\tmissing\n");
  EXPECT_THROW(pairs(), Error);
  EXPECT_TRUE(cache_files().empty());
  fs::remove(folder_ / "pairs.tsv");
  EXPECT_THROW(pairs(), Error);
}

TEST_F(Prepare, AKillWhileBuildingLeavesNothingForLong) {
  const pid_t child = fork();
  if (child == 0) {
    options_.progress = [](const data::PrepareProgress&) { ::raise(SIGKILL); };
    pairs();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(cache_files(".tmp-").size(), 1);
  EXPECT_EQ(pairs().size(), 3);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(cache_files().size(), 1);
}

TEST_F(Prepare, ProcessesThatPrepareTheSameWaitForOneAnother) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      bool built = false;
      options_.progress = [&](const data::PrepareProgress&) {
        built = true;
        ::usleep(100'000);
      };
      const bool good = pairs().size() == 3;
      _exit(!good ? 2 : built ? 1 : 0);
    }
  }
  int builders = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), 2);
    builders += WEXITSTATUS(status);
  }
  EXPECT_EQ(builders, 1);
  EXPECT_EQ(cache_files().size(), 1);
}

TEST_F(Prepare, TextIsCutIntoWindowsThatPredictEveryTokenOnce) {
  write_file(folder_ / "a.txt", "abc de\r\n\n   \nfghijklmnopqrs\nt");
  write_file(folder_ / "b.txt", "uv\n");
  const Dataset dataset = data::prepare_text({folder_ / "a.txt", folder_ / "b.txt"}, tokenizer_, options_);
  EXPECT_EQ(shown(dataset),
            (std::vector<std::string>{"^abcde|fgh:10:-1", "^ijklmnopq:10:-1", "^rs|t|:6:-1", "^uv|:4:-1"}));
  EXPECT_EQ(data::labels_of(dataset).size(), 0);
  EXPECT_EQ(reports_.back().bytes, reports_.back().total_bytes);
  write_file(folder_ / "empty.txt", " \n\n");
  EXPECT_THROW(data::prepare_text({folder_ / "empty.txt"}, tokenizer_, options_), Error);
  EXPECT_THROW(data::prepare_text({}, tokenizer_, options_), Error);
}

TEST_F(Prepare, ALongLineOfTextIsReadInPieces) {
  // Words of ten letters, and then letters without a single space, in two-byte characters.
  std::string line;
  while (line.size() < 300'000) line += "abcdefghij ";
  for (int i = 0; i < 100'000; ++i) line += "\xC3\xA9";
  write_file(folder_ / "a.txt", line + "\nz");
  options_.max_length = 1'000;
  const Dataset dataset = data::prepare_text({folder_ / "a.txt"}, tokenizer_, options_);
  std::string all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) all += shown(dataset[i].tokens).substr(1);
  std::erase(line, ' ');
  EXPECT_EQ(all, line + "|z|");
}

TEST_F(Prepare, TheCorpusHasTwoSidesAndItsSummary) {
  const std::string body = "(a):\n    b = a\n    c = b\n    return c\n";
  for (int file = 0; file < 10; ++file)
    for (const char letter : {'a', 'b'})
      write_file(folder_ / fmt::format("site/{}/m{}.py", letter == 'a' ? "one" : "two", file),
                 fmt::format("def f{0}_{1}{2}def g{0}_{1}{2}", letter, file, body));
  data::CorpusOptions corpus;
  corpus.roots = {{folder_ / "site", false}};
  corpus.least_functions = 10;
  corpus.largest_share = 0.5;
  const auto key = data::corpus_key(corpus);
  const auto prepared = data::prepare_corpus(corpus, tokenizer_, options_);
  EXPECT_EQ(prepared.train.size(), 32);
  EXPECT_EQ(prepared.held_out.size(), 8);
  EXPECT_EQ(prepared.train.longest(), 10);
  EXPECT_EQ(data::labels_of(prepared.held_out).names(), (std::vector<std::string>{"one", "two"}));
  const auto once = built();
  const auto again = data::prepare_corpus(corpus, tokenizer_, options_);
  EXPECT_EQ(built(), once);
  EXPECT_EQ(again.summary.files, 20);
  EXPECT_EQ(again.summary.functions, 40);
  EXPECT_EQ(again.summary.classes[1].train, 16);
  EXPECT_EQ(data::corpus_key(corpus), key);
  write_file(folder_ / "site/one/new.py", "");
  EXPECT_NE(data::corpus_key(corpus), key);
}

TEST_F(Prepare, MemoryDoesNotGrowWithTheFile) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps what is freed";
#endif
  {
    AtomicFile file(folder_ / "big.tsv");
    file.write("label\tpremise\thypothesis\n");
    RandomStream random(5);
    std::string text(150, 'x');
    for (int i = 0; i < 300'000; ++i) {
      text[random.below(text.size())] = static_cast<char>('a' + random.below(26));
      file.write(fmt::format("{}\t{}\t{}\n", i % 3, text, text));
    }
    file.commit();
  }
  ASSERT_GT(fs::file_size(folder_ / "big.tsv"), 90e6);
  options_.max_length = 128;
  const test::PeakMemory peak;
  const Dataset dataset = data::prepare_classification(data::preset_source("nli", folder_ / "big.tsv"),
                                                       labels_, tokenizer_, options_);
  EXPECT_EQ(dataset.size(), 300'000);
  EXPECT_LT(peak.growth(), 20e6);
}
