// From raw files to a prepared dataset, through a cache folder: a file that was prepared before with the same
// options and the same tokenizer is found again, else it is built, streaming.
#pragma once

#include <comera/data/classification.h>
#include <comera/data/corpus.h>
#include <comera/data/dataset.h>
#include <comera/data/tokenizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace comera::data {

struct PrepareProgress {
  std::int64_t bytes = 0;  ///< of the sources, done so far
  std::int64_t total_bytes = 0;
  std::int64_t samples = 0;
};

struct PrepareOptions {
  std::filesystem::path cache;                           ///< folder of prepared files, made when absent
  std::int64_t max_length = 128;                         ///< tokens a sample, special tokens included
  std::function<void(const PrepareProgress&)> progress;  ///< called now and then while building
  std::function<void(const std::string&)> warn;          ///< e.g. a damaged cache file that is built again
};

/// Token ids of one text, [CLS] first [SEP], or of a pair, [CLS] first [SEP] second [SEP] with first_segment
/// at the second text, at most max_length in all: tokens are dropped from the end of the longer text first.
struct EncodedExample {
  std::vector<std::int32_t> tokens;
  std::int64_t first_segment = 0;
  bool cut = false;
};
EncodedExample encode_text(const Tokenizer& tokenizer, std::string_view text, std::int64_t max_length);
EncodedExample encode_pair(const Tokenizer& tokenizer, std::string_view first, std::string_view second,
                           std::int64_t max_length);

/// Each prepare_ function opens the cached file, or builds it first: the key is the sources' paths, sizes and
/// times, the options and the tokenizer's state. Two processes that prepare the same wait for each other; a
/// kill leaves at most a temporary file that the next build removes. The description of the dataset is JSON
/// with kind, sources [{path, bytes, hash}], tokenizer {kind, hash}, max_length, cut (samples that
/// were too long), and what is named below.

/// Samples by encode_text or encode_pair. With `labels` empty they are found in the file (find_labels). Adds
/// labels (names) and dropped (rows).
Dataset prepare_classification(const ClassificationSource& source, const LabelMap& labels,
                               const Tokenizer& tokenizer, const PrepareOptions& options);

/// Plain text for language models: each line's tokens and a closing [SEP] (empty lines have none), cut into
/// windows of at most max_length tokens that begin with [CLS], so that every token is predicted exactly once.
/// A window does not cross files. Labels are -1.
Dataset prepare_text(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                     const PrepareOptions& options);

struct PreparedCorpus {
  Dataset train, held_out;
  CorpusSummary summary;
};
/// Both sides of the corpus of installed Python functions by encode_text. Adds labels and summary.
PreparedCorpus prepare_corpus(const CorpusOptions& corpus, const Tokenizer& tokenizer,
                              const PrepareOptions& options);

/// Keys of sources for other caches (a trained tokenizer): they change when a path, size, time or option
/// does, and cost no reading.
std::uint64_t corpus_key(const CorpusOptions& corpus);
std::uint64_t files_key(const std::vector<std::filesystem::path>& files);

/// Class names stored with a dataset; empty when it has none.
LabelMap labels_of(const Dataset& dataset);

}  // namespace comera::data
