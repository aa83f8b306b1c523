// Unigram tokenizer from a sentencepiece model, and the words it works on.
#pragma once

#include <comera/data/tokenizer.h>

#include <memory>
#include <string_view>

namespace comera::data {

/// Takes the next word off `rest` (valid UTF-8), empty at the end. Words end at white space and at U+2581,
/// the mark that stands for a space inside pieces.
std::string_view take_word(std::string_view& rest);

std::shared_ptr<const Tokenizer> restore_sentencepiece(std::string_view state);

}  // namespace comera::data
