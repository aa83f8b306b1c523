#include "cache.h"
#include "preparation.h"

#include <comera/base/error.h>
#include <comera/base/json.h>
#include <comera/data/prepare.h>

namespace comera::data {

Dataset prepare_classification(const ClassificationSource& source, const LabelMap& labels,
                               const Tokenizer& tokenizer, const PrepareOptions& options) {
  const Json stamps = source_stamps({source.path});
  Json key = preparation_key("classification", stamps, tokenizer, options);
  key["format"] = to_string(source.format ? *source.format : format_of(source.path));
  key["text"] = source.text;
  key["label"] = source.label;
  key["header"] = source.header;
  key["drop"] = source.drop;
  key["labels"] = labels.names();

  const auto build = [&](std::vector<DatasetWriter>& writers) {
    const bool find = labels.size() == 0 && !source.label.empty();
    const LabelMap known = find ? find_labels(source) : labels;
    ClassificationReader reader(source, known);
    Progress progress(options, total_bytes(stamps));
    std::int64_t cut = 0;
    for (Example example; reader.next(example);) {
      const EncodedExample encoded =
          source.text.size() == 2 ? encode_pair(tokenizer, example.first, example.second, options.max_length)
                                  : encode_text(tokenizer, example.first, options.max_length);
      writers.front().add({encoded.tokens, encoded.first_segment, example.label});
      cut += encoded.cut;
      progress.add(reader.bytes_read());
    }
    progress.finish();
    Json description = preparation_description("classification", described_sources({source.path}, stamps),
                                               tokenizer, options, cut);
    description["labels"] = known.names();
    description["dropped"] = reader.dropped();
    return description;
  };
  return std::move(cached(options, "classification", {source.path.stem().string()}, key, build).front());
}

LabelMap labels_of(const Dataset& dataset) {
  const Json description = parse_json(dataset.description(), dataset.path().string());
  if (!description.is_object() || !description.contains("labels") || description["labels"].empty()) return {};
  check(description["labels"].is_array(), "{}: its label names are damaged; delete it",
        dataset.path().string());
  std::vector<std::string> names;
  for (const auto& name : description["labels"]) {
    check(name.is_string(), "{}: its label names are damaged; delete it", dataset.path().string());
    names.push_back(name);
  }
  return LabelMap(std::move(names));
}

}  // namespace comera::data
