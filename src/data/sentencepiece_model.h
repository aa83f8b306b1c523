// The part of a sentencepiece model file (a protobuf message ModelProto) that encoding needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// How the first ids of every model here are used. The trainer is told so, and a model that differs is
// refused.
inline constexpr std::string_view kSpecialPieces[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
inline constexpr std::int32_t kFirstByte = 5;                  // id of the piece for byte 0
inline constexpr std::int32_t kFirstPiece = kFirstByte + 256;  // id of the first ordinary piece

/// U+2581, which stands for the space before a word inside pieces.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct SentencePieceModel {
  std::vector<std::string> pieces;  ///< ordinary pieces; their ids start at kFirstPiece
  std::vector<float> scores;        ///< log-probability of each
};

/// Throws Error when the bytes are damaged, or are a model of another kind than train_sentencepiece makes:
/// unigram, text not changed, special tokens and bytes first, the space mark only at the start of a piece.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes);

}  // namespace comera::data
