#include "preparation.h"

#include <comera/base/error.h>
#include <comera/data/prepare.h>

#include <algorithm>

namespace comera::data {
EncodedExample encode_text(const Tokenizer& tokenizer, std::string_view text, std::int64_t max_length) {
  check(max_length >= 3, "[prepare] max_length is {}; it must be at least 3", max_length);
  const SpecialTokens special = required_special(tokenizer);
  const auto ids = tokenizer.encode(text);
  const auto kept = std::min<std::int64_t>(ids.size(), max_length - 2);
  EncodedExample example;
  example.tokens.reserve(kept + 2);
  example.tokens.push_back(special.cls);
  example.tokens.insert(example.tokens.end(), ids.begin(), ids.begin() + kept);
  example.tokens.push_back(special.sep);
  example.first_segment = kept + 2;
  example.cut = kept < static_cast<std::int64_t>(ids.size());
  return example;
}

EncodedExample encode_pair(const Tokenizer& tokenizer, std::string_view first, std::string_view second,
                           std::int64_t max_length) {
  check(max_length >= 5, "[prepare] max_length is {}; pairs need at least 5", max_length);
  const SpecialTokens special = required_special(tokenizer);
  auto a = tokenizer.encode(first), b = tokenizer.encode(second);
  const auto all = a.size() + b.size(), places = static_cast<std::size_t>(max_length - 3);
  if (all > places) {
    // Token by token from the longer text, the second one when they are equal: the shorter keeps its half.
    const std::size_t half = places - places / 2;
    const std::size_t kept_a = std::min(a.size(), std::max(half, places - std::min(places, b.size())));
    b.resize(std::min(b.size(), places - kept_a));
    a.resize(kept_a);
  }
  EncodedExample example;
  example.tokens.reserve(a.size() + b.size() + 3);
  example.tokens.push_back(special.cls);
  example.tokens.insert(example.tokens.end(), a.begin(), a.end());
  example.tokens.push_back(special.sep);
  example.first_segment = static_cast<std::int64_t>(example.tokens.size());
  example.tokens.insert(example.tokens.end(), b.begin(), b.end());
  example.tokens.push_back(special.sep);
  example.cut = all > places;
  return example;
}

}  // namespace comera::data
