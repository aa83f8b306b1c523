#include "corpus_classes.h"
#include "corpus_source.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/data/corpus.h>
#include <comera/data/python_functions.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace comera::data {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{4} << 20;

// A file's text, or none where it cannot be read or is not UTF-8.
std::optional<std::string> read_source(const std::filesystem::path& path) {
  try {
    std::string source = read_file(path, kLargestFile);
    if (invalid_utf8(source)) return std::nullopt;
    return source;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_options(const CorpusOptions& options) {
  check(options.classes >= 2, "[corpus] classes is {}; it must be at least 2", options.classes);
  check(options.held_out > 0 && options.held_out < 1, "[corpus] held_out is {}; it must be between 0 and 1",
        options.held_out);
  check(options.largest_share > 0 && options.largest_share <= 1,
        "[corpus] largest_share is {}; it must be above 0 and at most 1", options.largest_share);
  for (const auto& [name, value] : {std::pair{"least_functions", options.least_functions},
                                    {"split_above", options.split_above},
                                    {"train_per_class", options.train_per_class},
                                    {"least_lines", options.least_lines},
                                    {"longest_text", options.longest_text}})
    check(value >= 1, "[corpus] {} is {}; it must be at least 1", name, value);
}

// First pass: where the functions are. Texts are not kept, so memory stays small.
std::vector<HarvestedFile> find_functions(const CorpusOptions& options, CorpusSummary& summary) {
  std::vector<HarvestedFile> harvested;
  std::unordered_set<std::uint64_t> seen;
  for (auto& file : corpus_files(options.roots)) {
    const auto source = read_source(file.path);
    const auto functions = source ? find_python_functions(*source) : std::nullopt;
    if (!functions) {
      ++summary.skipped;
      continue;
    }
    ++summary.files;
    harvested.push_back({std::move(file), {}});
    for (const auto& function : *functions) {
      if (function.lines < options.least_lines) continue;
      ++summary.functions;
      const std::uint64_t hash = hash_bytes(function_text(*source, function, options.longest_text));
      if (seen.insert(hash).second) {
        harvested.back().functions.push_back({function.begin, function.end, function.indent, hash});
      } else {
        ++summary.duplicates;
      }
    }
  }
  return harvested;
}

}  // namespace

std::int64_t CorpusSummary::train() const {
  std::int64_t sum = 0;
  for (const auto& one : classes) sum += one.train;
  return sum;
}

std::int64_t CorpusSummary::held_out() const {
  std::int64_t sum = 0;
  for (const auto& one : classes) sum += one.held_out;
  return sum;
}

double CorpusSummary::majority_baseline() const {
  std::int64_t most = 0;
  for (const auto& one : classes) most = std::max(most, one.held_out);
  return held_out() > 0 ? static_cast<double>(most) / static_cast<double>(held_out()) : 0;
}

CorpusSummary harvest_corpus(const CorpusOptions& options,
                             const std::function<void(const CorpusFunction&)>& use) {
  check_options(options);
  CorpusSummary summary;
  std::vector<HarvestedFile> files = find_functions(options, summary);
  const std::vector<std::string> classes = choose_classes(files, options);
  for (const auto& name : classes) summary.classes.push_back({name, 0, 0});

  // Second pass. Texts may become equal only now that names are gone.
  const NameRemover names(classes);
  std::unordered_set<std::uint64_t> seen;
  CorpusFunction given;
  for (const auto& file : files) {
    if (std::none_of(file.functions.begin(), file.functions.end(), [](const auto& f) { return f.taken; }))
      continue;
    const auto source = read_source(file.file.path);
    check(source.has_value(), "{}: changed while it was read; run it again", file.file.path.string());
    for (const auto& function : file.functions) {
      if (!function.taken) continue;
      check(function.end <= source->size(), "{}: changed while it was read; run it again",
            file.file.path.string());
      const std::string text =
          function_text(*source, {function.begin, function.end, 0, function.indent}, options.longest_text);
      check(hash_bytes(text) == function.hash, "{}: changed while it was read; run it again",
            file.file.path.string());
      given = {names.remove(text), file.label, file.held_out};
      if (!seen.insert(hash_bytes(given.text)).second) {
        ++summary.duplicates;
        continue;
      }
      auto& counts = summary.classes[given.label];
      ++(given.held_out ? counts.held_out : counts.train);
      use(given);
    }
  }
  return summary;
}

}  // namespace comera::data
