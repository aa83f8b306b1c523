#include "bert_words.h"

#include <algorithm>

namespace comera::data {

void BertWords::split(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const char32_t code = next_code_point(text, position);
    const BertClass of = bert_class(code);
    switch (of) {
      case BertClass::kDropped:
        break;
      case BertClass::kSpace:
        end_word();
        break;
      case BertClass::kIdeograph:
        end_word();
        add(code, of);
        end_word();
        break;
      default:
        add(code, of);
    }
  }
  end_word();
}

void BertWords::add(char32_t code, BertClass of) {
  if (!lowercase_)
    write(code, of);
  else if (code >= 128)
    add_stripped(code);
  else {
    write_waiting_marks();
    write(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code, of);
  }
}

void BertWords::add_stripped(char32_t code) {
  char32_t parts[4];
  const int count = decompose(code, parts);
  for (int i = 0; i < count; ++i) {
    const BertClass of = bert_class(parts[i]);
    const int combining = combining_class(parts[i], of);
    if (combining == 0) write_waiting_marks();
    if (of == BertClass::kMark) continue;
    if (combining == 0)
      write(lower_case(parts[i]), of);
    else
      waiting_.push_back({combining, parts[i]});
  }
}

void BertWords::write(char32_t code, BertClass of) {
  if (of == BertClass::kPunctuation) end_word();
  append_code_point(word_, code);
  ++characters_;
  if (of == BertClass::kPunctuation) end_word();
}

void BertWords::write_waiting_marks() {
  if (waiting_.empty()) return;
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const auto& a, const auto& b) { return a.combining_class < b.combining_class; });
  for (const auto& mark : waiting_) write(lower_case(mark.code), BertClass::kLetter);
  waiting_.clear();
}

void BertWords::end_word() {
  write_waiting_marks();
  if (characters_ > 0) on_word_(word_, characters_);
  word_.clear();
  characters_ = 0;
}

}  // namespace comera::data
