#include "require.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/tokenizer.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

// Input: a tokenizer's state (case, then the vocabulary), an empty line, text to encode.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t state_end = std::min(input.find("\n\n"), input.size());
  const std::string_view text = input.substr(std::min(state_end + 2, input.size()));
  std::shared_ptr<const comera::data::Tokenizer> tokenizer;
  try {
    tokenizer = comera::data::load_tokenizer("wordpiece", input.substr(0, state_end));
  } catch (const comera::Error& error) {
    REQUIRE(std::string_view(error.what()).starts_with("wordpiece state:"));
    return 0;
  }
  REQUIRE(comera::data::load_tokenizer("wordpiece", tokenizer->state())->state() == tokenizer->state());
  if (comera::invalid_utf8(text)) return 0;
  const auto ids = tokenizer->encode(text);
  for (const std::int32_t id : ids) REQUIRE(id >= 0 && id < tokenizer->vocabulary_size());
  REQUIRE(!comera::invalid_utf8(tokenizer->decode(ids)));
  return 0;
}
