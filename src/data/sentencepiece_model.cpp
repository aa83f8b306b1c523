#include "sentencepiece_model.h"

#include "protobuf.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <cmath>
#include <unordered_set>

namespace comera::data {
namespace {

// Field numbers and values of sentencepiece_model.proto.
enum ModelField : std::uint32_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3 };
enum PieceField : std::uint32_t { kText = 1, kScore = 2, kType = 3 };
enum PieceType : std::uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };
enum SpecField : std::uint32_t { kModelType = 3, kVocabularySize = 4, kCharacterMap = 2 };
constexpr std::uint64_t kUnigram = 1;

struct Piece {
  std::string_view text;
  float score = 0;
  std::uint64_t type = kNormal;
};

[[noreturn]] void refuse(std::string_view why) {
  fail("[sentencepiece] the model {}; train the tokenizer again", why);
}

// Calls visit(field) for the fields of a message.
template <class Visit>
void for_each_field(std::string_view message, Visit&& visit) {
  ProtobufReader reader(message);
  while (const auto field = reader.next()) visit(*field);
  if (reader.damaged()) refuse("is damaged: it is not a protobuf message");
}

Piece parse_piece(std::string_view message) {
  Piece piece;
  for_each_field(message, [&](const auto& field) {
    if (field.number == kText) piece.text = field.bytes;
    if (field.number == kScore) piece.score = field.as_float();
    if (field.number == kType) piece.type = field.integer;
  });
  return piece;
}

// Pieces with a role come first, in the order the trainer was told.
void check_reserved(const Piece& piece, std::int32_t id) {
  if (id < kFirstByte) {
    if (piece.text != kSpecialPieces[id] || piece.type != (id == 1 ? kUnknown : kControl))
      refuse(fmt::format("has another piece with id {} than {}", id, kSpecialPieces[id]));
  } else if (piece.text != fmt::format("<0x{:02X}>", id - kFirstByte) || piece.type != kByte) {
    refuse(fmt::format("has another piece with id {} than byte {}", id, id - kFirstByte));
  }
}

void check_ordinary(const Piece& piece, std::int64_t id) {
  if (piece.type != kNormal) refuse(fmt::format("has a piece of type {} with id {}", piece.type, id));
  if (piece.text.empty() || invalid_utf8(piece.text)) refuse(fmt::format("has no valid text for id {}", id));
  if (piece.text.find(kSpaceMark, 1) != std::string_view::npos)
    refuse(fmt::format("has a piece with a space inside, id {}", id));
  if (!std::isfinite(piece.score)) refuse(fmt::format("has a score that is not finite, id {}", id));
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  std::unordered_set<std::string_view> seen;  // views into `bytes`
  std::int64_t id = 0;
  std::uint64_t model_type = kUnigram, size = 0;
  for_each_field(bytes, [&](const auto& field) {
    if (field.number == kPieces) {
      const Piece piece = parse_piece(field.bytes);
      if (id < kFirstPiece) {
        check_reserved(piece, static_cast<std::int32_t>(id));
      } else {
        check_ordinary(piece, id);
        model.pieces.emplace_back(piece.text);
        model.scores.push_back(piece.score);
      }
      if (!seen.insert(piece.text).second) refuse(fmt::format("has the piece of id {} twice", id));
      ++id;
    } else if (field.number == kTrainerSpec) {
      for_each_field(field.bytes, [&](const auto& part) {
        if (part.number == kModelType) model_type = part.integer;
        if (part.number == kVocabularySize) size = part.integer;
      });
    } else if (field.number == kNormalizerSpec) {
      for_each_field(field.bytes, [&](const auto& part) {
        if (part.number == kCharacterMap && !part.bytes.empty()) refuse("changes characters of the text");
      });
    }
  });
  if (id < kFirstPiece || size != static_cast<std::uint64_t>(id))
    refuse(fmt::format("is damaged: it has {} pieces and says {}", id, size));
  if (!seen.contains(kSpaceMark)) refuse("has no piece for the space");
  if (model_type != kUnigram) refuse(fmt::format("is of type {}, not unigram", model_type));
  return model;
}

}  // namespace comera::data
