// Text to token ids. A tokenizer is immutable and its whole state can be stored (in a checkpoint) and
// restored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

/// Ids of the tokens with a role; -1 where the vocabulary has none.
struct SpecialTokens {
  std::int32_t pad = -1, unknown = -1, cls = -1, sep = -1, mask = -1;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids of `text` (valid UTF-8; Error otherwise), without special tokens.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Text of `ids`; special tokens are left out.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  virtual std::int64_t vocabulary_size() const = 0;
  virtual SpecialTokens special() const = 0;
  /// "wordpiece" or "sentencepiece".
  virtual std::string kind() const = 0;
  /// Everything load_tokenizer(kind, state) needs to build an equal one.
  virtual std::string state() const = 0;
};

/// BERT's WordPiece over a vocabulary file with one token a line (line number - 1 is the id). Equal to the
/// BERT normaliser, pre-tokeniser and WordPiece model of the Python package `tokenizers`.
std::shared_ptr<const Tokenizer> load_wordpiece(const std::filesystem::path& vocabulary,
                                                bool lowercase = true);

/// Options of a tokenizer trained on a corpus through sentencepiece (unigram).
struct SentencePieceOptions {
  std::int64_t vocabulary_size = 8192;  ///< including the five special tokens
  std::int64_t training_sentences = 200'000;
  double character_coverage = 0.9995;
  std::uint64_t seed = 1;
};
/// Trains on `lines` (each valid UTF-8). The same lines and options give the same tokenizer.
std::shared_ptr<const Tokenizer> train_sentencepiece(const std::vector<std::string>& lines,
                                                     const SentencePieceOptions& options);

/// Restores a tokenizer from what kind() and state() gave. Damaged state is an Error.
std::shared_ptr<const Tokenizer> load_tokenizer(std::string_view kind, std::string_view state);

}  // namespace comera::data
