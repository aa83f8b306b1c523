#include "wordpiece.h"

#include "bert_words.h"
#include "trie.h"
#include "unicode.h"
#include "vocabulary.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/data/tokenizer.h>

#include <algorithm>

namespace comera::data {
namespace {

constexpr std::uint64_t kLargestVocabulary = std::uint64_t{64} << 20;  // bytes
constexpr std::int64_t kLongestWord = 100;                             // characters; longer words are unknown

std::int32_t find_special(const std::vector<std::string>& tokens, std::string_view name,
                          const std::string& source) {
  const auto found = std::find(tokens.begin(), tokens.end(), name);
  check(found != tokens.end(), "{}: no token {} among {}; add a line {}", source, name, tokens.size(), name);
  return static_cast<std::int32_t>(found - tokens.begin());
}

class WordPiece final : public Tokenizer {
 public:
  WordPiece(std::vector<std::string> tokens, bool lowercase, const std::string& source)
      : tokens_(std::move(tokens)), lowercase_(lowercase), trie_(tokens_) {
    special_ = {.pad = find_special(tokens_, "[PAD]", source),
                .unknown = find_special(tokens_, "[UNK]", source),
                .cls = find_special(tokens_, "[CLS]", source),
                .sep = find_special(tokens_, "[SEP]", source),
                .mask = find_special(tokens_, "[MASK]", source)};
    inside_word_ = trie_.descend(Trie::kRoot, "##");
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    check_utf8(text, "wordpiece");
    std::vector<std::int32_t> ids;
    BertWords words(lowercase_, [&](std::string_view word, std::int64_t characters) {
      const std::size_t before = ids.size();
      if (characters <= kLongestWord && append_pieces(word, ids)) return;
      ids.resize(before);
      ids.push_back(special_.unknown);
    });
    words.split(text);
    return ids;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      check(id >= 0 && id < vocabulary_size(), "[wordpiece] id {} is not in the vocabulary of {} tokens", id,
            vocabulary_size());
      if (is_special(id)) continue;
      const std::string_view token = tokens_[id];
      if (token.starts_with("##") && token.size() > 2 && !text.empty()) {
        text += token.substr(2);
      } else {
        if (!text.empty()) text += ' ';
        text += token;
      }
    }
    return text;
  }

  std::int64_t vocabulary_size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  SpecialTokens special() const override { return special_; }
  std::string kind() const override { return "wordpiece"; }

  std::string state() const override {
    std::string text = lowercase_ ? "uncased\n" : "cased\n";
    for (const auto& token : tokens_) (text += token) += '\n';
    return text;
  }

 private:
  bool is_special(std::int32_t id) const {
    return id == special_.pad || id == special_.unknown || id == special_.cls || id == special_.sep ||
           id == special_.mask;
  }

  // Appends the longest token that starts the word, then the longest that goes on, and so on. False, with
  // some pieces appended, when a rest has no token. Tokens and word are UTF-8, so a match ends between
  // characters.
  bool append_pieces(std::string_view word, std::vector<std::int32_t>& ids) const {
    Trie::Node start = Trie::kRoot;
    while (!word.empty()) {
      std::int32_t id = -1;
      std::size_t length = 0;
      Trie::Node node = start;
      for (std::size_t i = 0; i < word.size() && node != Trie::kNone; ++i) {
        node = trie_.child(node, static_cast<unsigned char>(word[i]));
        if (node == Trie::kNone) break;
        if (trie_.number(node) < 0) continue;
        id = trie_.number(node);
        length = i + 1;
      }
      if (id < 0) return false;
      ids.push_back(id);
      word.remove_prefix(length);
      start = inside_word_;
    }
    return true;
  }

  std::vector<std::string> tokens_;
  bool lowercase_;
  Trie trie_;
  Trie::Node inside_word_ = Trie::kNone;  // where the tokens that begin with ## branch off
  SpecialTokens special_;
};

}  // namespace

std::shared_ptr<const Tokenizer> load_wordpiece(const std::filesystem::path& vocabulary, bool lowercase) {
  const std::string source = vocabulary.string();
  return std::make_shared<WordPiece>(parse_vocabulary(read_file(vocabulary, kLargestVocabulary), source),
                                     lowercase, source);
}

std::shared_ptr<const Tokenizer> restore_wordpiece(std::string_view state) {
  const std::string source = "wordpiece state";
  const bool lowercase = state.starts_with("uncased\n");
  check(lowercase || state.starts_with("cased\n"),
        "{}:1: neither 'uncased' nor 'cased'; the tokenizer is damaged", source);
  state.remove_prefix(state.find('\n') + 1);
  return std::make_shared<WordPiece>(parse_vocabulary(state, source), lowercase, source);
}

}  // namespace comera::data
