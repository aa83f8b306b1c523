#include "names.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/classification.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace comera::data {
namespace {

struct Preset {
  std::string name;
  std::vector<std::string> text;
  std::string label;
  bool header = true;
  std::string drop{};
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"nli", {"premise", "hypothesis"}, "label"},
      {"multinli", {"sentence1", "sentence2"}, "gold_label", true, "-"},
      {"sst2", {"sentence"}, "label"},
      {"mrpc", {"#1 String", "#2 String"}, "Quality"},
      {"rte", {"sentence1", "sentence2"}, "label"},
      {"qnli", {"question", "sentence"}, "label"},
      {"cola", {"4"}, "2", false},
  };
  return all;
}

// A label column with more different values than this is taken for a column of texts or ids.
constexpr std::size_t kMostLabels = 10'000;

void check_source(const ClassificationSource& source) {
  check(source.text.size() == 1 || source.text.size() == 2,
        "{}: {} text columns given; name one, or two for pairs", source.path.string(), source.text.size());
}

RowOptions row_options(const ClassificationSource& source) {
  RowOptions options{.columns = source.text, .format = source.format, .header = source.header};
  if (!source.label.empty()) options.columns.push_back(source.label);
  return options;
}

std::optional<std::int64_t> as_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& preset : presets()) all.push_back(preset.name);
    return all;
  }();
  return names;
}

ClassificationSource preset_source(const std::string& name, const std::filesystem::path& path) {
  for (const auto& preset : presets())
    if (preset.name == name)
      return {.path = path,
              .text = preset.text,
              .label = preset.label,
              .header = preset.header,
              .drop = preset.drop};
  const std::string near = nearest_name(name, preset_names());
  fail("unknown data preset '{}'{}; the presets are {}", name,
       near.empty() ? "" : fmt::format(", did you mean '{}'", near), listed(preset_names()));
}

LabelMap::LabelMap(std::vector<std::string> names) : names_(std::move(names)) {
  check(names_.size() >= 2, "{} labels ({}); a classifier needs two or more", names_.size(), listed(names_));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    check(!names_[i].empty(), "label {} has no name", i);
    check(indices_.emplace(names_[i], static_cast<std::int64_t>(i)).second, "the label '{}' is given twice",
          names_[i]);
  }
}

std::int64_t LabelMap::index(const std::string& name) const {
  const auto found = indices_.find(name);
  return found == indices_.end() ? -1 : found->second;
}

LabelMap find_labels(const ClassificationSource& source) {
  const std::string file = source.path.string();
  check(!source.label.empty(), "{}: no label column is named, so its labels cannot be found", file);
  RowOptions options = row_options(source);
  options.columns = {source.label};
  const auto rows = open_rows(source.path, options);
  std::set<std::string> found;
  for (Row row; rows->next(row);) {
    const std::string& label = row.fields.front();
    if (!source.drop.empty() && label == source.drop) continue;
    check(!label.empty(), "{}:{}: the label is empty", file, row.line);
    found.insert(label);
    check(found.size() <= kMostLabels, "{}:{}: more than {} different labels; is '{}' the label column?",
          file, row.line, kMostLabels, source.label);
  }
  check(found.size() >= 2, "{}: {} different labels in column '{}'; a classifier needs two or more", file,
        found.size(), source.label);
  std::vector<std::string> names(found.begin(), found.end());
  if (std::all_of(names.begin(), names.end(), [](const auto& name) { return as_integer(name).has_value(); }))
    std::stable_sort(names.begin(), names.end(),
                     [](const auto& a, const auto& b) { return *as_integer(a) < *as_integer(b); });
  return LabelMap(std::move(names));
}

ClassificationReader::ClassificationReader(const ClassificationSource& source, LabelMap labels)
    : source_(source), labels_(std::move(labels)) {
  check_source(source_);
  rows_ = open_rows(source_.path, row_options(source_));
}

bool ClassificationReader::next(Example& example) {
  const std::size_t texts = source_.text.size();
  while (rows_->next(row_)) {
    example.label = -1;
    if (!source_.label.empty()) {
      const std::string& name = row_.fields.back();
      if (!source_.drop.empty() && name == source_.drop) {
        ++dropped_;
        continue;
      }
      example.label = labels_.index(name);
      if (example.label < 0)
        fail("{}:{}: unknown label '{}'; the labels are {}", source_.path.string(), row_.line, shown(name),
             listed(labels_.names()));
    }
    example.first.swap(row_.fields[0]);
    example.second.clear();
    if (texts == 2) example.second.swap(row_.fields[1]);
    example.line = row_.line;
    ++given_;
    return true;
  }
  check(given_ > 0, "{}: has no rows{}", source_.path.string(),
        dropped_ > 0 ? fmt::format(" besides {} labelled '{}'", dropped_, source_.drop) : "");
  return false;
}

}  // namespace comera::data
