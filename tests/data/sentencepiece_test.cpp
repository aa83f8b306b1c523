#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>
#include <comera/base/text.h>
#include <comera/data/tokenizer.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace comera::data {
namespace {

using Ids = std::vector<std::int32_t>;
using test::TemporaryFolder;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::shared_ptr<const Tokenizer> train(const std::vector<std::string>& lines,
                                       const SentencePieceOptions& options) {
  SentencePieceTrainer trainer(options);
  for (const auto& line : lines) trainer.add(line);
  return trainer.train();
}

// Made-up functions with many words in common.
std::vector<std::string> code_lines(int count) {
  std::vector<std::string> lines;
  RandomStream random(random_key(7, 0, 0));
  const std::vector<std::string> words = {"value", "return", "self", "index",
                                          "count", "table",  "node", "left"};
  const auto word = [&] { return words[random.below(words.size())]; };
  for (int i = 0; i < count; ++i)
    lines.push_back(fmt::format("def get_{0}_{1}(self,\t{0}):\n    return self.{1}[{0}] + {2}", word(),
                                word(), random.below(100)));
  return lines;
}

std::shared_ptr<const Tokenizer> small_tokenizer() {
  static const auto tokenizer = train(code_lines(2000), {.vocabulary_size = 400});
  return tokenizer;
}

// A variable of the environment with another value for a while.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(SentencePiece, LearnsTheWordsOfTheCorpus) {
  const auto tokenizer = small_tokenizer();
  EXPECT_LE(tokenizer->vocabulary_size(), 400);
  EXPECT_GT(tokenizer->vocabulary_size(), 261);
  for (const std::string word : {"return", "self"}) EXPECT_EQ(tokenizer->encode(word).size(), 1) << word;
  EXPECT_EQ(tokenizer->special().pad, 0);
  EXPECT_EQ(tokenizer->special().mask, 4);
}

TEST(SentencePiece, WhiteSpaceIsOneSpaceAndAllElseComesBack) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer->encode(""), Ids());
  EXPECT_EQ(tokenizer->encode(" \t\r\n\u00A0\u3000\u2581"), Ids());
  EXPECT_EQ(tokenizer->encode("\n  return\t\tself\u2028 "), tokenizer->encode("return self"));
  const std::string nul("a\0b", 3);
  for (const std::string text : {std::string("return self"), nul, std::string("x\u0001\u007F\u200B"),
                                 std::string("cafe\u0301 \u1100\u1161\uFEFF"), std::string("漢字かな"),
                                 std::string("👩‍👧 🇩🇪"), std::string("[SEP] <0x41> [MASK]"),
                                 std::string(10'000, 'q'), std::string("\U0010FFFF\uFFFD")}) {
    const Ids ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    for (const std::int32_t id : ids) EXPECT_TRUE(id >= 5 && id < tokenizer->vocabulary_size()) << id;
  }
}

TEST(SentencePiece, DecodesAnyIdsToValidText) {
  const auto tokenizer = small_tokenizer();
  Ids all;
  for (std::int32_t id = 0; id < tokenizer->vocabulary_size(); ++id) all.push_back(id);
  EXPECT_FALSE(invalid_utf8(tokenizer->decode(all)));
  EXPECT_EQ(tokenizer->decode({0, 1, 2, 3, 4}), "");
  EXPECT_EQ(tokenizer->decode({5 + 'a', 5 + 0xC3, 5 + 'b'}), "a\uFFFDb");
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(tokenizer->vocabulary_size())})
    EXPECT_THROW(tokenizer->decode({id}), Error);
}

TEST(SentencePiece, SameLinesAndOptionsGiveTheSameTokenizer) {
  const auto lines = code_lines(500);
  const SentencePieceOptions options{.vocabulary_size = 320, .training_bytes = 10'000};
  const std::string state = train(lines, options)->state();
  TemporaryFolder folder;  // wherever the files are made
  {
    const Environment elsewhere("TMPDIR", folder.path().string());
    EXPECT_EQ(train(lines, options)->state(), state);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left behind";
  EXPECT_NE(train(lines, {.vocabulary_size = 320, .training_bytes = 10'000, .seed = 2})->state(), state);
}

TEST(SentencePiece, SampleOfLongLinesIsBounded) {
  // One line of 20 MB: cut, so that training takes no time.
  std::vector<std::string> lines = code_lines(100);
  std::string longest;
  while (longest.size() < 20'000'000) longest += "wörter ";
  lines.push_back(longest);
  EXPECT_GT(train(lines, {.vocabulary_size = 300})->vocabulary_size(), 261);
}

TEST(SentencePiece, RefusesWhatItCannotTrainOn) {
  const auto message = [](const std::vector<std::string>& lines, const SentencePieceOptions& options) {
    return message_of([&] { train(lines, options); });
  };
  EXPECT_EQ(message({}, {}), "[sentencepiece] no text in 0 lines to train a tokenizer on");
  EXPECT_EQ(message({"", " \n"}, {}), "[sentencepiece] no text in 2 lines to train a tokenizer on");
  EXPECT_EQ(message({"a\xFF"}, {}),
            "[sentencepiece] text is not valid UTF-8 at byte 2 of 2; convert it to UTF-8 first");
  EXPECT_EQ(message({"a"}, {.vocabulary_size = 261}),
            "[sentencepiece] vocabulary_size 261 is not between 262 and 1000000");
  EXPECT_EQ(message({"a"}, {.training_bytes = 0}), "[sentencepiece] training_bytes 0 is not above 0");
  // What the program itself refuses: fewer tokens than characters.
  std::string alphabet;
  for (char c = 'a'; c <= 'z'; ++c) alphabet += c;
  EXPECT_EQ(message({alphabet, alphabet}, {.vocabulary_size = 270}).substr(0, 12), "[spm_train] ");
}

TEST(SentencePiece, SaysWhatIsMissing) {
  const auto message = [] { return message_of([] { train(code_lines(10), {.vocabulary_size = 300}); }); };
  {
    const Environment none("PATH", "/nonexistent");
    EXPECT_EQ(message(),
              "[spm_train] program not found; install the package sentencepiece, for example: apt install "
              "sentencepiece");
  }
  const Environment none("TMPDIR", "/nonexistent");
  EXPECT_EQ(message(),
            "[sentencepiece] cannot make a temporary folder; set TMPDIR to a folder that can be written");
}

TEST(SentencePiece, TrainsOnTheFewestLines) {
  for (const std::vector<std::string>& lines : {std::vector<std::string>{"a"},
                                                {"a b"},
                                                {std::string("\0\0", 2)},
                                                {"\u2585 \u2585"},
                                                {"\u0001\u0002"}}) {
    const std::string message =
        message_of([&] { EXPECT_EQ(train(lines, {.vocabulary_size = 300})->encode("a").size(), 2); });
    EXPECT_TRUE(message == "no error" || message.starts_with("[spm_train]")) << message;
  }
}

// Python's sentencepiece, and every other program that reads the model, must see the same ids. Word by word,
// because over longer text sentencepiece's sums are rounded and near ties fall differently.
TEST(SentencePiece, EqualsSentencePiece) {
  COMERA_DATA_FILE(code, "code/python_docstring_test.tsv");
  const auto lines = lines_of(read_file(code));
  const auto tokenizer = train(lines, {.vocabulary_size = 2000, .training_bytes = 400'000});
  std::set<std::string> words = {"naïve", "漢字", "😀x", "\u200B", "[CLS]", "<0x41>"};
  for (const auto& line : lines) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.insert(word);
  }
  TemporaryFolder folder;
  write_file(folder / "tokenizer.model", tokenizer->state());
  std::string text;
  for (const auto& word : words) text += word + "\n";
  write_file(folder / "words.txt", text);
  const std::string command = fmt::format(
      "cd {} && spm_encode --model=tokenizer.model --output_format=id < words.txt > "
      "ids.txt",
      folder.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto theirs = lines_of(read_file(folder / "ids.txt"));
  ASSERT_EQ(theirs.size(), words.size());
  std::size_t i = 0;
  for (const auto& word : words)
    ASSERT_EQ(fmt::format("{}", fmt::join(tokenizer->encode(word), " ")), theirs[i++]) << word;
}

TEST(SentencePieceState, RestoresAnEqualTokenizer) {
  const auto tokenizer = small_tokenizer();
  const auto restored = load_tokenizer(tokenizer->kind(), tokenizer->state());
  EXPECT_EQ(restored->state(), tokenizer->state());
  EXPECT_EQ(restored->vocabulary_size(), tokenizer->vocabulary_size());
  for (const auto& line : code_lines(50)) EXPECT_EQ(restored->encode(line), tokenizer->encode(line));
}

TEST(SentencePieceState, CutShortIsAnError) {
  const std::string state = small_tokenizer()->state();
  // Behind the pieces come only descriptions that encoding does not need.
  const std::size_t needed = state.find("sample.txt") - 4;
  for (std::size_t size = 0; size < needed; ++size)
    ASSERT_THROW(load_tokenizer("sentencepiece", state.substr(0, size)), Error) << size;
}

TEST(SentencePieceState, DamageIsAnErrorOrStillWorks) {
  const std::string state = small_tokenizer()->state();
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomStream random(random_key(seed, 0, 0));
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = state;
    for (std::uint64_t times = 1 + random.below(3); times > 0; --times)
      damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
    try {
      const auto tokenizer = load_tokenizer("sentencepiece", damaged);
      for (const std::int32_t id : tokenizer->encode("def get_value(self): ü"))
        ASSERT_LT(id, tokenizer->vocabulary_size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(SentencePieceState, ForeignModelsAreRefused) {
  TemporaryFolder folder;
  std::string text;
  for (const auto& line : code_lines(200)) text += line + "\n";
  write_file(folder / "text", text);
  const auto refusal = [&](const std::string& options) {
    const std::string command = fmt::format(
        "cd {} && spm_train --input=text --model_prefix=m --hard_vocab_limit=false "
        "{} > log 2>&1",
        folder.path().string(), options);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return message_of([&] { load_tokenizer("sentencepiece", read_file(folder / "m.model")); });
  };
  const std::string ours =
      "--vocab_size=400 --byte_fallback=true --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3 "
      "--control_symbols=[MASK] --pad_piece=[PAD] --unk_piece=[UNK] --bos_piece=[CLS] "
      "--eos_piece=[SEP] ";
  EXPECT_EQ(refusal("--vocab_size=100"),
            "[sentencepiece] the model has another piece with id 0 than [PAD]; train the tokenizer again");
  EXPECT_EQ(refusal(ours),
            "[sentencepiece] the model changes characters of the text; train the tokenizer again");
  EXPECT_EQ(
      refusal(ours +
              "--normalization_rule_name=identity --model_type=bpe --hard_vocab_limit=true --vocab_size=330"),
      "[sentencepiece] the model is of type 2, not unigram; train the tokenizer again");
  EXPECT_EQ(refusal(ours + "--normalization_rule_name=identity"), "no error");
}

}  // namespace
}  // namespace comera::data
