// Code points of UTF-8 text, and the classes of characters that the tokenizers tell apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace comera::data {

/// Throws Error `[where] ... byte N` when text is not valid UTF-8.
void check_utf8(std::string_view text, std::string_view where);

/// The code point at `position`, which moves behind it. `text` must be valid UTF-8.
inline char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&] { return static_cast<unsigned char>(text[position++]); };
  const char32_t lead = byte();
  if (lead < 0x80) return lead;
  char32_t code = lead & (lead >= 0xF0 ? 0x07 : lead >= 0xE0 ? 0x0F : 0x1F);
  for (int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1; more > 0; --more)
    code = (code << 6) | (byte() & 0x3F);
  return code;
}

inline void append_code_point(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | (code >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

/// What BERT's normaliser and pre-tokeniser do with a character.
enum class BertClass : std::uint8_t {
  kLetter,       ///< part of a word; everything that has no other class
  kSpace,        ///< ends a word
  kDropped,      ///< as if it were not there: control, format and private-use characters, U+FFFD
  kIdeograph,    ///< a word of its own
  kPunctuation,  ///< a word of its own
  kMark,         ///< non-spacing mark: dropped when accents are stripped, else part of a word
};
BertClass bert_class(char32_t code);

/// Canonical decomposition (NFD) of one code point into `parts`; returns how many there are.
int decompose(char32_t code, char32_t (&parts)[4]);
/// Canonical combining class of a code point whose class is known; 0 for a starter.
int combining_class(char32_t code, BertClass known);
/// Lower case of one code point as one code point.
char32_t lower_case(char32_t code);

}  // namespace comera::data
