#include "test_data.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/tokenizer.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace comera::data {
namespace {

using Ids = std::vector<std::int32_t>;
using test::TemporaryFolder;

const std::string kSpecial = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

std::shared_ptr<const Tokenizer> load(const std::string& tokens, bool lowercase = true) {
  TemporaryFolder folder;
  write_file(folder / "vocab.txt", tokens);
  return load_wordpiece(folder / "vocab.txt", lowercase);
}

// The message without the folder.
std::string refusal(const std::string& tokens) {
  try {
    load(tokens);
  } catch (const Error& error) {
    const std::string message = error.what();
    return message.substr(message.find("vocab.txt"));
  }
  return "no error";
}

TEST(WordPiece, TakesTheLongestTokenAtEachPlace) {
  const auto tokenizer = load(kSpecial + "a\nab\nabc\n##c\n##cd\n##d\n##e\n");
  EXPECT_EQ(tokenizer->encode("ab"), Ids({6}));
  EXPECT_EQ(tokenizer->encode("abcd"), Ids({7, 10}));  // abc ##d, although ab ##cd has as many
  EXPECT_EQ(tokenizer->encode("acde"), Ids({5, 9, 11}));
}

TEST(WordPiece, AWordWithARestIsUnknownAsAWhole) {
  const auto tokenizer = load(kSpecial + "a\nb\n##b\n");
  EXPECT_EQ(tokenizer->encode("ab a abx b"), Ids({5, 7, 5, 1, 6}));
  EXPECT_EQ(load(kSpecial + "a\n")->encode("ab"), Ids({1})) << "no token begins with ##";
}

TEST(WordPiece, WordsAboveAHundredCharactersAreUnknown) {
  const auto tokenizer = load(kSpecial + "é\n##é\na\n##a\n", false);
  const auto repeat = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_EQ(tokenizer->encode(repeat("é", 100)).size(), 100);
  EXPECT_EQ(tokenizer->encode(repeat("é", 101)), Ids({1}));
  EXPECT_EQ(tokenizer->encode(std::string(10'000, 'a') + " a"), Ids({1, 7}));
}

TEST(WordPiece, EmptyAndBlankTextHasNoTokens) {
  const auto tokenizer = load(kSpecial + "a\n");
  for (const std::string text : {"", " ", "\t\r\n  \n", "\u00A0\u2003\u3000", "\u200B\uFEFF\u0001"})
    EXPECT_EQ(tokenizer->encode(text), Ids()) << text;
}

TEST(WordPiece, ControlCharactersVanishInsideWords) {
  const auto tokenizer = load(kSpecial + "ab\n");
  EXPECT_EQ(tokenizer->encode("a\u0001b"), Ids({5}));
  EXPECT_EQ(tokenizer->encode(std::string("a\0b", 3)), Ids({5}));
  EXPECT_EQ(tokenizer->encode("a\u200Db a\uFFFDb a\u00ADb a\vb"), Ids({5, 5, 5, 5}));
}

TEST(WordPiece, StripsAccentsOnlyWithLowercase) {
  const std::string tokens = kSpecial + "cafe\ncafé\nCAFÉ\ni\n";
  const auto uncased = load(tokens), cased = load(tokens, false);
  for (const std::string text : {"café", "CAFÉ", "cafe\u0301", "CAFE\u0301\u0323"})
    EXPECT_EQ(uncased->encode(text), Ids({5})) << text;
  EXPECT_EQ(cased->encode("café CAFÉ cafe Cafe"), Ids({6, 7, 5, 1}));
  EXPECT_EQ(uncased->encode("İ"), Ids({8}));
}

TEST(WordPiece, PutsMarksThatStayInCanonicalOrder) {
  // Two marks that are not non-spacing: classes 226 and 216, with a stripped one of class 230 between.
  const std::string first = "\U0001D165", second = "\U0001D16D";
  const auto tokenizer = load(kSpecial + "x" + first + second + "\n");
  EXPECT_EQ(tokenizer->encode("x" + second + "\u0301" + first), Ids({5}));
}

TEST(WordPiece, PunctuationAndIdeographsAreWords) {
  const auto tokenizer = load(kSpecial + "a\n.\n,\n中\n文\n¿\n😀\n");
  EXPECT_EQ(tokenizer->encode("a.a,a"), Ids({5, 6, 5, 7, 5}));
  EXPECT_EQ(tokenizer->encode("a中文a"), Ids({5, 8, 9, 5}));
  EXPECT_EQ(tokenizer->encode("¿a"), Ids({10, 5}));
  EXPECT_EQ(tokenizer->encode("😀 a😀"), Ids({11, 1})) << "an emoji is part of the word it stands in";
}

TEST(WordPiece, NamesOfSpecialTokensInTextAreWords) {
  const auto tokenizer = load(kSpecial + "sep\n[\n]\n");
  EXPECT_EQ(tokenizer->encode("[SEP]"), Ids({6, 5, 7}));
}

TEST(WordPiece, InvalidUtf8IsAnError) {
  const auto tokenizer = load(kSpecial + "a\n");
  for (const std::string text : {"a \xFF", "\xC3", "a\xED\xA0\x80", "\xC0\x80"}) {
    try {
      tokenizer->encode(text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("not valid UTF-8 at byte"), std::string::npos) << error.what();
    }
  }
}

TEST(WordPiece, DecodesToWords) {
  const auto tokenizer = load(kSpecial + "un\n##known\nword\n.\n");
  EXPECT_EQ(tokenizer->decode({2, 5, 6, 7, 1, 8, 3, 0}), "unknown word .");
  EXPECT_EQ(tokenizer->decode({6, 5}), "##known un");
  EXPECT_EQ(tokenizer->decode({}), "");
  for (const std::int32_t id : {-1, 9, 1 << 30}) EXPECT_THROW(tokenizer->decode({id}), Error);
}

TEST(WordPiece, StateRestoresAnEqualTokenizer) {
  for (const bool lowercase : {true, false}) {
    const auto tokenizer = load("a\n[MASK]\nÉ\n[SEP]\n[CLS]\n[UNK]\ne\n[PAD]\n", lowercase);
    const auto restored = load_tokenizer(tokenizer->kind(), tokenizer->state());
    EXPECT_EQ(restored->state(), tokenizer->state());
    EXPECT_EQ(restored->encode("A É e"), tokenizer->encode("A É e"));
    EXPECT_EQ(restored->vocabulary_size(), 8);
    const SpecialTokens special = restored->special();
    EXPECT_EQ((Ids{special.pad, special.unknown, special.cls, special.sep, special.mask}),
              Ids({7, 5, 4, 3, 1}));
  }
}

TEST(WordPiece, DamagedStateIsAnError) {
  const std::string state = load(kSpecial + "a\n")->state();
  EXPECT_THROW(load_tokenizer("wordpiece", ""), Error);
  EXPECT_THROW(load_tokenizer("wordpiece", state.substr(1)), Error);
  EXPECT_THROW(load_tokenizer("wordpiece", state.substr(0, state.find("[MASK]"))), Error);
  EXPECT_THROW(load_tokenizer("wordpiece", state + "\xFF\n"), Error);
  EXPECT_THROW(load_tokenizer("bpe", state), Error);
}

TEST(Vocabulary, MayHaveCarriageReturnsByteOrderMarkAndNoLastLineEnd) {
  EXPECT_EQ(load("\xEF\xBB\xBF[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na")->encode("a"), Ids({5}));
}

TEST(Vocabulary, RefusalsNameFileAndLine) {
  EXPECT_EQ(refusal(""), "vocab.txt: empty file; a vocabulary has one token a line");
  EXPECT_EQ(refusal(kSpecial + "a\n\nb\n"), "vocab.txt:7: empty line; a vocabulary has one token a line");
  EXPECT_EQ(refusal(kSpecial + "a\nb\na\n"),
            "vocab.txt:8: token 'a' is already in line 6; remove one of them");
  EXPECT_EQ(refusal("[PAD]\n[CLS]\n[SEP]\n[MASK]\na\n"),
            "vocab.txt: no token [UNK] among 5; add a line [UNK]");
  EXPECT_EQ(refusal(kSpecial + "a\xFF\n"),
            "vocab.txt:6: byte 2 is not valid UTF-8; convert the vocabulary to UTF-8");
  EXPECT_EQ(
      refusal(kSpecial + "text\tlabel\n"),
      "vocab.txt:6: token with a space or control character at byte 5; is this a vocabulary with one token a "
      "line?");
  EXPECT_EQ(refusal(kSpecial + std::string("a\0b\n", 4)).substr(0, 12), "vocab.txt:6:");
  EXPECT_EQ(refusal(kSpecial + std::string(10'000'000, 'a')),
            "vocab.txt:6: line of 10000000 bytes, but tokens have at most 402; is this a vocabulary with one "
            "token a "
            "line?");
}

TEST(Vocabulary, MissingFileFolderAndHugeFileAreErrors) {
  TemporaryFolder folder;
  EXPECT_THROW(load_wordpiece(folder / "none.txt"), Error);
  EXPECT_THROW(load_wordpiece(folder.path()), Error);
  write_file(folder / "huge.txt", "");
  std::filesystem::resize_file(folder / "huge.txt", std::uintmax_t{1} << 40);  // sparse: takes no room
  EXPECT_THROW(load_wordpiece(folder / "huge.txt"), Error);
}

TEST(WordPiece, ReadsTheBertVocabulary) {
  COMERA_DATA_FILE(vocabulary, "vocab/bert-base-uncased-vocab.txt");
  const auto tokenizer = load_wordpiece(vocabulary);
  EXPECT_EQ(tokenizer->vocabulary_size(), 30'522);
  EXPECT_EQ(tokenizer->special().pad, 0);
  EXPECT_EQ(tokenizer->special().cls, 101);
  EXPECT_EQ(tokenizer->encode("Tokenization isn't hard."), Ids({19204, 3989, 3475, 1005, 1056, 2524, 1012}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Tokenization isn't hard.")), "tokenization isn ' t hard .");
}

}  // namespace
}  // namespace comera::data
