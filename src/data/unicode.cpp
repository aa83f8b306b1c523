#include "unicode.h"

#include "unicode_table.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace comera::data {
namespace {

constexpr auto kAscii = [] {
  std::array<BertClass, 128> table{};
  for (int c = 0; c < 128; ++c) {
    const bool space = c == '\t' || c == '\n' || c == '\r' || c == ' ';
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    table[c] = space                ? BertClass::kSpace
               : c < 32 || c == 127 ? BertClass::kDropped
               : alphanumeric       ? BertClass::kLetter
                                    : BertClass::kPunctuation;
  }
  return table;
}();

// The reference decomposes and reorders as Unicode 9.0 does. Marks that are not non-spacing marks of 8.0 stay
// in the text, so their order matters; these are all that have a combining class.
struct OrderedMarks {
  char32_t first, last;
  int combining_class;
};
constexpr OrderedMarks kOrderedMarks[] = {
    {0x8D4, 0x8E1, 230},     {0x1B44, 0x1B44, 9},     {0x1BAA, 0x1BAA, 9},     {0x1BF2, 0x1BF3, 9},
    {0x1DFB, 0x1DFB, 230},   {0x302E, 0x302F, 224},   {0xA953, 0xA953, 9},     {0xA9C0, 0xA9C0, 9},
    {0x111C0, 0x111C0, 9},   {0x11235, 0x11235, 9},   {0x1134D, 0x1134D, 9},   {0x11442, 0x11442, 9},
    {0x11446, 0x11446, 7},   {0x116B6, 0x116B6, 9},   {0x11C3F, 0x11C3F, 9},   {0x1D165, 0x1D166, 216},
    {0x1D16D, 0x1D16D, 226}, {0x1D16E, 0x1D172, 216}, {0x1E000, 0x1E006, 230}, {0x1E008, 0x1E018, 230},
    {0x1E01B, 0x1E021, 230}, {0x1E023, 0x1E024, 230}, {0x1E026, 0x1E02A, 230}, {0x1E944, 0x1E949, 230},
    {0x1E94A, 0x1E94A, 7},
};

// Characters with a decomposition that came after Unicode 9.0.
constexpr char32_t kNewComposites[] = {
    0x105C9, 0x105E4, 0x11383, 0x11385, 0x1138E, 0x11391, 0x113C5, 0x113C7, 0x113C8, 0x11938, 0x16121,
    0x16122, 0x16123, 0x16124, 0x16125, 0x16126, 0x16127, 0x16128, 0x16D68, 0x16D69, 0x16D6A,
};

// Capitals newer than some installed utf8proc; the reference lowers as Unicode 17 does.
struct Capitals {
  char32_t first, last;
  std::int32_t to_lower;  // added to the capital
};
constexpr Capitals kNewCapitals[] = {
    {0x1C89, 0x1C89, 1},    {0xA7CB, 0xA7CB, -42343}, {0xA7CC, 0xA7CC, 1}, {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},    {0xA7D4, 0xA7D4, 1},      {0xA7DA, 0xA7DA, 1}, {0xA7DC, 0xA7DC, -42561},
    {0x10D50, 0x10D65, 32}, {0x16EA0, 0x16EB8, 27},
};

template <class Ranges>
auto find_range(const Ranges& ranges, char32_t code) {
  const auto range = std::lower_bound(std::begin(ranges), std::end(ranges), code,
                                      [](const auto& r, char32_t c) { return r.last < c; });
  return range != std::end(ranges) && range->first <= code ? &*range : nullptr;
}

}  // namespace

void check_utf8(std::string_view text, std::string_view where) {
  if (const auto bad = invalid_utf8(text))
    fail("[{}] text is not valid UTF-8 at byte {} of {}; convert it to UTF-8 first", where, *bad + 1,
         text.size());
}

BertClass bert_class(char32_t code) {
  if (code < 128) return kAscii[code];
  const auto* range = find_range(bert_table::kRanges, code);
  return range ? range->of : BertClass::kLetter;
}

int decompose(char32_t code, char32_t (&parts)[4]) {
  parts[0] = code;
  if (std::binary_search(std::begin(kNewComposites), std::end(kNewComposites), code)) return 1;
  utf8proc_int32_t buffer[4];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code), buffer, 4,
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  if (count < 1 || count > 4) return 1;
  std::copy_n(buffer, count, parts);
  return static_cast<int>(count);
}

int combining_class(char32_t code, BertClass known) {
  if (known == BertClass::kMark)
    return static_cast<int>(utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class);
  const auto* range = find_range(kOrderedMarks, code);
  return range ? range->combining_class : 0;
}

char32_t lower_case(char32_t code) {
  if (const auto* range = find_range(kNewCapitals, code)) return code + range->to_lower;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

}  // namespace comera::data
