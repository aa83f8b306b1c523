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

/// Ids of the tokens with a role. Every tokenizer here has all five.
struct SpecialTokens {
  std::int32_t pad = -1, unknown = -1, cls = -1, sep = -1, mask = -1;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ids of `text` (valid UTF-8; Error otherwise), without special tokens.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Text of `ids`; special tokens are left out. Throws Error for an id that is not in the vocabulary.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  virtual std::int64_t vocabulary_size() const = 0;
  virtual SpecialTokens special() const = 0;
  /// "wordpiece" or "sentencepiece".
  virtual std::string kind() const = 0;
  /// Everything load_tokenizer(kind, state) needs to build an equal one.
  virtual std::string state() const = 0;
};

/// BERT's WordPiece over a vocabulary file with one token a line (line number - 1 is the id); the five
/// special tokens must be in it, as [PAD], [UNK], [CLS], [SEP], [MASK]. Text is plain text: "[SEP]" in it is
/// three words. Otherwise equal to the BERT normaliser, pre-tokeniser and WordPiece model of the Python
/// package `tokenizers`, and like them `lowercase` strips accents too. Throws Error `file:line: what`.
std::shared_ptr<const Tokenizer> load_wordpiece(const std::filesystem::path& vocabulary,
                                                bool lowercase = true);

/// Options of a tokenizer trained on a corpus.
struct SentencePieceOptions {
  /// Tokens at most; a small corpus gives fewer. Five special tokens and 256 bytes are among them.
  std::int64_t vocabulary_size = 8192;
  /// Text trained on: a random sample of the lines, of about this size. Time and memory grow with it, not
  /// with the corpus.
  std::int64_t training_bytes = 3'000'000;
  std::uint64_t seed = 1;
};

/// Trains a unigram tokenizer through sentencepiece, whose program spm_train must be installed; it runs as a
/// process of its own. White space counts as one space between words, and is not part of the text otherwise.
/// A character that the model does not know becomes its bytes, so nothing is unknown. The state() is a
/// sentencepiece model file: on text with single spaces Python's sentencepiece gives the same ids. The same
/// lines and options give the same tokenizer.
class SentencePieceTrainer {
 public:
  explicit SentencePieceTrainer(const SentencePieceOptions& options);
  ~SentencePieceTrainer();
  /// A line of the corpus (valid UTF-8; Error otherwise).
  void add(std::string_view line);
  /// Throws Error when no line had text, or when spm_train is missing or fails.
  std::shared_ptr<const Tokenizer> train() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Restores a tokenizer from what kind() and state() gave. Damaged state is an Error.
std::shared_ptr<const Tokenizer> load_tokenizer(std::string_view kind, std::string_view state);

}  // namespace comera::data
