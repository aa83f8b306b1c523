// WordPiece from what its state() gave.
#pragma once

#include <comera/data/tokenizer.h>

#include <memory>
#include <string_view>

namespace comera::data {

std::shared_ptr<const Tokenizer> restore_wordpiece(std::string_view state);

}  // namespace comera::data
