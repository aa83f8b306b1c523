#include "sentencepiece.h"

#include "require.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/tokenizer.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

// Input: the number of bytes of a text (one byte), the text, a tokenizer's state.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string_view text = input.substr(0, data[0]);
  std::shared_ptr<const comera::data::Tokenizer> tokenizer;
  try {
    tokenizer = comera::data::load_tokenizer("sentencepiece", input.substr(text.size()));
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("[sentencepiece] "));
    return 0;
  }
  if (comera::invalid_utf8(text)) return 0;
  const auto ids = tokenizer->encode(text);
  for (const std::int32_t id : ids) REQUIRE(id >= 0 && id < tokenizer->vocabulary_size());
  // Nothing is lost but the kind of white space.
  std::string words;
  for (auto word = comera::data::take_word(text); !word.empty(); word = comera::data::take_word(text))
    words.append(words.empty() ? "" : " ").append(word);
  REQUIRE(tokenizer->decode(ids) == words);
  return 0;
}
