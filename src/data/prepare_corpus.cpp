#include "cache.h"
#include "corpus_source.h"
#include "preparation.h"

#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/data/prepare.h>

namespace comera::data {
namespace {

Json corpus_options_key(const CorpusOptions& corpus) {
  Json roots = Json::array();
  // Tens of thousands of stamps are kept as their hash.
  Hasher hasher;
  for (const auto& file : corpus_files(corpus.roots)) {
    hasher.add(source_stamp(file.path).dump());
    hasher.add("\n");
  }
  for (const auto& root : corpus.roots)
    roots.push_back({{"path", path_text(root.path)}, {"stdlib", root.standard_library}});
  return {{"roots", roots},
          {"files", hex(hasher.digest())},
          {"classes", corpus.classes},
          {"least_functions", corpus.least_functions},
          {"split_above", corpus.split_above},
          {"train_per_class", corpus.train_per_class},
          {"held_out", corpus.held_out},
          {"largest_share", corpus.largest_share},
          {"least_lines", corpus.least_lines},
          {"longest_text", corpus.longest_text},
          {"seed", corpus.seed}};
}

Json to_json(const CorpusSummary& summary) {
  Json classes = Json::array();
  for (const auto& one : summary.classes)
    classes.push_back({{"name", one.name}, {"train", one.train}, {"held_out", one.held_out}});
  return {{"classes", classes},
          {"files", summary.files},
          {"skipped", summary.skipped},
          {"functions", summary.functions},
          {"duplicates", summary.duplicates}};
}

CorpusSummary summary_from(const Json& json) {
  CorpusSummary summary;
  for (const auto& one : json.at("classes"))
    summary.classes.push_back({one.at("name"), one.at("train"), one.at("held_out")});
  summary.files = json.at("files");
  summary.skipped = json.at("skipped");
  summary.functions = json.at("functions");
  summary.duplicates = json.at("duplicates");
  return summary;
}

}  // namespace

PreparedCorpus prepare_corpus(const CorpusOptions& corpus, const Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  const auto build = [&](std::vector<DatasetWriter>& writers) {
    Progress progress(options, 0);
    std::int64_t cut = 0, bytes = 0;
    const CorpusSummary summary = harvest_corpus(corpus, [&](const CorpusFunction& function) {
      const EncodedExample encoded = encode_text(tokenizer, function.text, options.max_length);
      writers[function.held_out].add({encoded.tokens, encoded.first_segment, function.label});
      cut += encoded.cut;
      progress.add(bytes += static_cast<std::int64_t>(function.text.size()));
    });
    progress.finish();
    Json sources = Json::array();
    for (const auto& root : corpus.roots) sources.push_back({{"path", path_text(root.path)}});
    Json description = preparation_description("corpus", sources, tokenizer, options, cut);
    for (const auto& one : summary.classes) description["labels"].push_back(one.name);
    description["summary"] = to_json(summary);
    return description;
  };
  auto sides = cached(options, "corpus", {"train", "held-out"},
                      preparation_key("corpus", corpus_options_key(corpus), tokenizer, options), build);
  CorpusSummary summary =
      summary_from(parse_json(sides[0].description(), sides[0].path().string()).at("summary"));
  return {std::move(sides[0]), std::move(sides[1]), std::move(summary)};
}

std::uint64_t corpus_key(const CorpusOptions& corpus) {
  return hash_bytes(corpus_options_key(corpus).dump());
}

}  // namespace comera::data
