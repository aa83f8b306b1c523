// BERT's normaliser and pre-tokeniser in one pass over the text.
#pragma once

#include "unicode.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace comera::data {

/// Cleans text and cuts it into words as BERT does: control characters go, white space ends a word,
/// ideographs and punctuation are words of their own. With `lowercase`, text is decomposed, stripped of
/// non-spacing marks and lowered. `on_word(word, characters)` gets each word in order; the view is valid
/// during the call.
class BertWords {
 public:
  using OnWord = std::function<void(std::string_view word, std::int64_t characters)>;
  BertWords(bool lowercase, OnWord on_word) : lowercase_(lowercase), on_word_(std::move(on_word)) {}

  /// All of one text, which must be valid UTF-8.
  void split(std::string_view text);

 private:
  void add(char32_t code, BertClass of);
  void add_stripped(char32_t code);
  void write(char32_t code, BertClass of);
  void write_waiting_marks();
  void end_word();

  struct WaitingMark {
    int combining_class;
    char32_t code;
  };
  bool lowercase_;
  OnWord on_word_;
  std::string word_;
  std::int64_t characters_ = 0;
  std::vector<WaitingMark> waiting_;  // marks since the last starter, still to be put in canonical order
};

}  // namespace comera::data
