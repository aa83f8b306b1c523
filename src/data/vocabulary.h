// A BERT vocabulary: one token a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

/// Tokens of a vocabulary, in order. White space at the end of a line (also that of CRLF) and a byte-order
/// mark are not part of it. Throws Error `source:line: what` for lines that cannot be tokens, and for
/// duplicates.
std::vector<std::string> parse_vocabulary(std::string_view text, const std::string& source);

}  // namespace comera::data
