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
#include <iterator>
#include <map>
#include <utility>

namespace comera::data {
namespace {
namespace fs = std::filesystem;

// Longer lines are cut, so that one line is never all of the sample.
constexpr std::size_t kLongestLine = 4096;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "comera-tokenizer-XXXXXX").string();
    check(!error && ::mkdtemp(pattern.data()) != nullptr,
          "[sentencepiece] cannot make a temporary folder; set TMPDIR to a folder that can be written");
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

// Every line gets a random rank. The lines of lowest rank that together have the bytes asked for are the
// sample, so it can be kept up while lines stream by.
struct SentencePieceTrainer::State {
  using Rank = std::pair<std::uint64_t, std::int64_t>;  // random number, line number

  SentencePieceOptions options;
  RandomStream random;
  std::int64_t lines = 0, bytes = 0;
  std::map<Rank, std::string> sample;

  bool full() const { return bytes >= options.training_bytes; }
};

SentencePieceTrainer::SentencePieceTrainer(const SentencePieceOptions& options)
    : state_(new State{
          .options = options, .random = RandomStream(random_key(options.seed, 0, 0)), .sample = {}}) {
  constexpr std::int64_t kFewest = kFirstPiece + 1, kMost = 1'000'000;
  check(options.vocabulary_size >= kFewest && options.vocabulary_size <= kMost,
        "[sentencepiece] vocabulary_size {} is not between {} and {}", options.vocabulary_size, kFewest,
        kMost);
  check(options.training_bytes > 0, "[sentencepiece] training_bytes {} is not above 0",
        options.training_bytes);
}

SentencePieceTrainer::~SentencePieceTrainer() = default;

void SentencePieceTrainer::add(std::string_view line) {
  State& state = *state_;
  check_utf8(line, "sentencepiece");
  const std::uint64_t high = state.random(), low = state.random();
  const State::Rank rank{high << 32 | low, state.lines++};
  if (state.full() && state.sample.rbegin()->first < rank) return;
  std::string text = training_line(line);
  if (text.empty()) return;
  state.bytes += static_cast<std::int64_t>(text.size());
  state.sample.emplace(rank, std::move(text));
  // What is still full without its last line does not need it.
  while (true) {
    const auto last = std::prev(state.sample.end());
    const auto without = state.bytes - static_cast<std::int64_t>(last->second.size());
    if (without < state.options.training_bytes) break;
    state.bytes = without;
    state.sample.erase(last);
  }
}

std::shared_ptr<const Tokenizer> SentencePieceTrainer::train() const {
  check(!state_->sample.empty(), "[sentencepiece] no text in {} lines to train a tokenizer on",
        state_->lines);
  const TemporaryFolder folder;
  AtomicFile file(folder.path() / "sample.txt");
  for (const auto& [rank, text] : state_->sample) {
    file.write(text);
    file.write("\n");
  }
  file.commit();
  run_program(training_command(state_->options), folder.path(), "log.txt", "sentencepiece");
  return restore_sentencepiece(read_file(folder.path() / "tokenizer.model"));
}

}  // namespace comera::data
