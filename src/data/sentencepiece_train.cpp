// Training runs sentencepiece's own program in a process of its own, not its library in ours. The library and
// torch's libc10 both export a variable FLAGS_minloglevel, of different types, and the dynamic linker makes
// them one: depending on the order of libraries, 32 bytes are written over 4 or a pointer is read as a
// number. It also keeps the memory that training takes out of the peak of the run.
#include "child_process.h"
#include "sentencepiece.h"
#include "sentencepiece_model.h"
#include "unicode.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/random.h>

#include <algorithm>
#include <numeric>

namespace comera::data {
namespace {
namespace fs = std::filesystem;

// Longer lines are cut, so that one line is never all of the sample.
constexpr std::size_t kLongestLine = 4096;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "comera-tokenizer-XXXXXX").string();
    check(::mkdtemp(pattern.data()) != nullptr,
          "[sentencepiece] cannot make the folder {}; set TMPDIR to a folder that can be written", pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The words of a line with one space between them, cut between two characters.
std::string training_line(std::string_view line) {
  std::string text;
  for (auto word = take_word(line); !word.empty() && text.size() < kLongestLine; word = take_word(line)) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  std::size_t size = std::min(text.size(), kLongestLine);
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  text.resize(size);
  return text;
}

// Lines in random order, until they have as many bytes as asked for.
void write_sample(const std::vector<std::string>& lines, const SentencePieceOptions& options,
                  const fs::path& path) {
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  RandomStream random(random_key(options.seed, 0, 0));
  shuffle(order, random);
  AtomicFile file(path);
  std::int64_t bytes = 0;
  for (const std::size_t index : order) {
    if (bytes >= options.training_bytes) break;
    check_utf8(lines[index], "sentencepiece");
    const std::string text = training_line(lines[index]);
    if (text.empty()) continue;
    file.write(text);
    file.write("\n");
    bytes += static_cast<std::int64_t>(text.size());
  }
  check(bytes > 0, "[sentencepiece] no text in the {} lines to train a tokenizer on", lines.size());
  file.commit();
}

std::vector<std::string> training_command(const SentencePieceOptions& options) {
  // Names are relative: they are stored in the model, which must not depend on where the folder is. One
  // thread, because sums over threads depend on their number.
  return {"spm_train", "--input=sample.txt", "--model_prefix=tokenizer", "--model_type=unigram",
          fmt::format("--vocab_size={}", options.vocabulary_size), "--hard_vocab_limit=false",
          // A candidate costs time in every pass; beyond three times the vocabulary they hardly ever stay.
          fmt::format("--seed_sentencepiece_size={}", 3 * options.vocabulary_size), "--byte_fallback=true",
          "--normalization_rule_name=identity", fmt::format("--max_sentence_length={}", 2 * kLongestLine),
          "--pad_id=0", "--unk_id=1", "--bos_id=2", "--eos_id=3", "--control_symbols=[MASK]",
          "--pad_piece=[PAD]", "--unk_piece=[UNK]", "--bos_piece=[CLS]", "--eos_piece=[SEP]",
          "--num_threads=1", "--minloglevel=1"};
}

}  // namespace

std::shared_ptr<const Tokenizer> train_sentencepiece(const std::vector<std::string>& lines,
                                                     const SentencePieceOptions& options) {
  constexpr std::int64_t kFewest = kFirstPiece + 1, kMost = 1'000'000;
  check(options.vocabulary_size >= kFewest && options.vocabulary_size <= kMost,
        "[sentencepiece] vocabulary_size {} is not between {} and {}", options.vocabulary_size, kFewest,
        kMost);
  check(options.training_bytes > 0, "[sentencepiece] training_bytes {} is not above 0",
        options.training_bytes);
  const TemporaryFolder folder;
  write_sample(lines, options, folder.path() / "sample.txt");
  run_program(training_command(options), folder.path(), "log.txt", "sentencepiece");
  return restore_sentencepiece(read_file(folder.path() / "tokenizer.model"));
}

}  // namespace comera::data
