#include "sentencepiece.h"
#include "wordpiece.h"

#include <comera/base/error.h>
#include <comera/data/tokenizer.h>

namespace comera::data {

std::shared_ptr<const Tokenizer> load_tokenizer(std::string_view kind, std::string_view state) {
  if (kind == "wordpiece") return restore_wordpiece(state);
  if (kind == "sentencepiece") return restore_sentencepiece(state);
  fail("[tokenizer] unknown kind '{}'; this version knows wordpiece and sentencepiece", kind);
}

}  // namespace comera::data
