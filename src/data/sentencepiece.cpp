#include "sentencepiece.h"

#include "sentencepiece_model.h"
#include "trie.h"
#include "unicode.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <algorithm>

namespace comera::data {
namespace {

constexpr float kUnknownPenalty = 10;  // below the least probable piece, as in sentencepiece

// White_Space of Unicode, which is fixed, and the mark.
bool separates_words(char32_t code) {
  if (code < 128) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x2581 ||
         code == 0x3000;
}

// Replaces every byte that is not part of valid UTF-8 by U+FFFD.
std::string mend_utf8(std::string_view text) {
  std::string mended;
  while (const auto bad = invalid_utf8(text)) {
    mended += text.substr(0, *bad);
    mended += "\xEF\xBF\xBD";
    text.remove_prefix(*bad + 1);
  }
  return mended += text;
}

class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(std::string_view state)
      : state_(state), model_(parse_sentencepiece_model(state)), trie_(model_.pieces) {
    unknown_score_ =
        (model_.scores.empty() ? 0 : *std::min_element(model_.scores.begin(), model_.scores.end())) -
        kUnknownPenalty;
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    check_utf8(text, "sentencepiece");
    std::vector<std::int32_t> ids;
    std::string word;
    std::vector<Step> steps;
    for (auto next = take_word(text); !next.empty(); next = take_word(text)) {
      word.assign(kSpaceMark).append(next);
      append_pieces(word, steps, ids);
    }
    return ids;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      check(id >= 0 && id < vocabulary_size(), "[sentencepiece] id {} is not in the vocabulary of {} tokens",
            id, vocabulary_size());
      if (id < kFirstByte) continue;
      if (id < kFirstPiece) {
        text += static_cast<char>(id - kFirstByte);
        continue;
      }
      std::string_view piece = model_.pieces[id - kFirstPiece];
      if (piece.starts_with(kSpaceMark)) {
        piece.remove_prefix(kSpaceMark.size());
        if (!text.empty()) text += ' ';
      }
      text += piece;
    }
    return mend_utf8(text);
  }

  std::int64_t vocabulary_size() const override {
    return kFirstPiece + static_cast<std::int64_t>(model_.pieces.size());
  }
  SpecialTokens special() const override { return {.pad = 0, .unknown = 1, .cls = 2, .sep = 3, .mask = 4}; }
  std::string kind() const override { return "sentencepiece"; }
  std::string state() const override { return state_; }

 private:
  // The best way to reach a byte of the word: its log-probability, the piece that ends there and where it
  // starts.
  struct Step {
    std::int64_t start = -1;
    float score = 0;
    std::int32_t piece = -1;  // -1: a character without a piece
  };

  // Viterbi over the word: the pieces with the greatest sum of scores. As in sentencepiece, sums are
  // compared in double and kept in float, so that rounding decides ties alike.
  void append_pieces(std::string_view word, std::vector<Step>& steps, std::vector<std::int32_t>& ids) const {
    steps.assign(word.size() + 1, Step{});
    for (std::size_t start = 0; start < word.size();) {
      std::size_t after = start;
      next_code_point(word, after);
      const bool has_character = extend_from(word, start, after, steps);
      if (!has_character) improve(steps[after], steps[start].score + unknown_score_, start, -1);
      start = after;
    }
    const std::size_t first = ids.size();
    for (std::size_t end = word.size(); end > 0; end = steps[end].start) {
      const Step& step = steps[end];
      if (step.piece >= 0)
        ids.push_back(kFirstPiece + step.piece);
      else
        for (std::size_t byte = end; byte > static_cast<std::size_t>(step.start); --byte)
          ids.push_back(kFirstByte + static_cast<unsigned char>(word[byte - 1]));
    }
    std::reverse(ids.begin() + first, ids.end());
  }

  // Offers every piece that begins at `start`. True when one is just the first character, which ends at
  // `after`.
  bool extend_from(std::string_view word, std::size_t start, std::size_t after,
                   std::vector<Step>& steps) const {
    bool has_character = false;
    Trie::Node node = Trie::kRoot;
    for (std::size_t end = start + 1; end <= word.size(); ++end) {
      node = trie_.child(node, static_cast<unsigned char>(word[end - 1]));
      if (node == Trie::kNone) break;
      const std::int32_t piece = trie_.number(node);
      if (piece < 0) continue;
      improve(steps[end], double{model_.scores[piece]} + steps[start].score, start, piece);
      has_character |= end == after;
    }
    return has_character;
  }

  static void improve(Step& step, double score, std::size_t start, std::int32_t piece) {
    if (step.start < 0 || score > step.score)
      step = {static_cast<std::int64_t>(start), static_cast<float>(score), piece};
  }

  std::string state_;
  SentencePieceModel model_;
  Trie trie_;
  float unknown_score_ = 0;
};

}  // namespace

std::string_view take_word(std::string_view& rest) {
  std::size_t begin = 0, end = 0;
  bool inside = false;
  while (end < rest.size()) {
    std::size_t after = end;
    const bool separates = separates_words(next_code_point(rest, after));
    if (separates && inside) break;
    inside = !separates;
    if (separates) begin = after;
    end = after;
  }
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

std::shared_ptr<const Tokenizer> restore_sentencepiece(std::string_view state) {
  return std::make_shared<SentencePiece>(state);
}

}  // namespace comera::data
