#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/data/prepare.h>
#include <comera/nn/model.h>
#include <comera/train/task.h>

#include <torch/cuda.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

namespace comera::train {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> expand_paths(const std::vector<std::string>& paths) {
  std::vector<fs::path> expanded;
  for (const std::string& path : paths) expanded.push_back(expand_path(path));
  return expanded;
}

fs::path only(const std::vector<std::string>& paths, const char* key) {
  check(paths.size() == 1, "[data] {} must name one file for this source, got {}", key, paths.size());
  return expand_path(paths.front());
}

data::CorpusOptions corpus_options(const Recipe& recipe) {
  const char* from_environment = std::getenv("COMERA_PYTHON");
  const std::string python = !recipe.data.python.empty() ? recipe.data.python
                             : from_environment          ? from_environment
                                                         : "python3";
  data::CorpusOptions options;
  options.roots = data::python_roots(python);
  return options;
}

data::ClassificationSource source(const Recipe& recipe, const fs::path& path) {
  const DataRecipe& d = recipe.data;
  if (d.source != "table") return data::preset_source(d.source, path);
  check(d.text.size() == 1 || d.text.size() == 2,
        "[data] data.text must name one column, or two for pairs, got {}", d.text.size());
  check(!d.label.empty(), "[data] data.label must name the label column");
  return {.path = path, .format = {}, .text = d.text, .label = d.label, .header = d.header, .drop = ""};
}

// Text that a sentencepiece tokenizer is trained on: every line or function once, `add` may ignore what is
// too much.
void training_text(const Recipe& recipe, const std::function<void(const std::string&)>& add) {
  const DataRecipe& d = recipe.data;
  if (d.source == "python") {
    data::harvest_corpus(corpus_options(recipe), [&](const data::CorpusFunction& function) {
      if (!function.held_out) add(function.text);
    });
  } else if (d.source == "text") {
    for (const fs::path& path : expand_paths(d.train)) {
      std::ifstream in(path);
      check(in.good(), "{}: cannot open", path.string());
      std::int64_t line_number = 0;
      for (std::string line; std::getline(in, line);) {
        ++line_number;
        check(!invalid_utf8(line), "{}:{}: invalid UTF-8", path.string(), line_number);
        add(line);
      }
    }
  } else {
    data::ClassificationSource unlabelled = source(recipe, only(d.train, "data.train"));
    unlabelled.label.clear();
    data::ClassificationReader reader(unlabelled, {});
    for (data::Example example; reader.next(example);) {
      add(example.first);
      if (!example.second.empty()) add(example.second);
    }
  }
}

std::uint64_t source_key(const Recipe& recipe) {
  return recipe.data.source == "python" ? data::corpus_key(corpus_options(recipe))
                                        : data::files_key(expand_paths(recipe.data.train));
}

// Trained once for the same text and options, then read from the cache.
std::shared_ptr<const data::Tokenizer> trained_tokenizer(const Recipe& recipe, const Say& say) {
  const DataRecipe& d = recipe.data;
  data::SentencePieceOptions options;
  options.vocabulary_size = d.vocabulary_size;
  const std::string key = fmt::format("sentencepiece 1 {} {} {} {}", d.source, source_key(recipe),
                                      options.vocabulary_size, fmt::join(d.text, ","));
  const fs::path cached = fs::path(d.cache) / fmt::format("tokenizer-{}.model", hex(hash_bytes(key)));
  if (fs::exists(cached)) {
    try {
      return data::load_tokenizer("sentencepiece", read_file(cached));
    } catch (const Error& error) {
      say(fmt::format("warning: {}: {}; it is trained again", cached.string(), error.what()));
    }
  }
  say(fmt::format("training a tokenizer of {} tokens on the data (once; kept in {})", d.vocabulary_size,
                  d.cache));
  data::SentencePieceTrainer trainer(options);
  bool found = false;
  training_text(recipe, [&](const std::string& text) {
    found = found || !text.empty();
    trainer.add(text);
  });
  check(found, "{}: has no text to train a tokenizer on",
        d.train.empty() ? "the installed packages" : expand_path(d.train.front()).string());
  auto tokenizer = trainer.train();
  write_file(cached, tokenizer->state());
  return tokenizer;
}

// Progress at most once a second, on files large enough to wait for.
data::PrepareOptions prepare_options(const Recipe& recipe, const Say& say) {
  data::PrepareOptions options;
  options.cache = recipe.data.cache;
  options.max_length = recipe.data.max_length;
  options.warn = [say](const std::string& text) { say("warning: " + text); };
  options.progress = [say](const data::PrepareProgress& progress) {
    if (progress.total_bytes > 0)
      say(fmt::format("preparing data: {:.0f}%, {} samples", 100.0 * progress.bytes / progress.total_bytes,
                      format_count(progress.samples)));
  };
  return options;
}

std::string sizes(const char* what, const data::Dataset& data) {
  return fmt::format("{}: {} samples, {:.1f} tokens each, hash {}", what, data.size(),
                     static_cast<double>(data.total_tokens()) / std::max<std::int64_t>(1, data.size()),
                     hex(data.content_hash()));
}

data::Dataset prepare(const Recipe& recipe, const std::vector<std::string>& files, const char* key,
                      const data::LabelMap& labels, const data::Tokenizer& tokenizer, const Say& say) {
  const data::PrepareOptions options = prepare_options(recipe, say);
  if (recipe.data.source == "text") return data::prepare_text(expand_paths(files), tokenizer, options);
  return data::prepare_classification(source(recipe, only(files, key)), labels, tokenizer, options);
}

void check_source(const Recipe& recipe) {
  const bool classifier = recipe.model.head == "classifier", text = recipe.data.source == "text";
  check(classifier != text, "[data] data.source = \"{}\" does not fit model.head = \"{}\": {}",
        recipe.data.source, recipe.model.head,
        classifier ? "a classifier needs labelled rows" : "a token head needs data.source = \"text\"");
  check(recipe.data.source == "python" || !recipe.data.train.empty(), "[data] data.train names no file");
  check(recipe.data.tokenizer != "wordpiece" || !recipe.data.vocabulary.empty(),
        "[data] the wordpiece tokenizer needs data.vocabulary");
}

void check_opens(const char* key, const std::string& path) {
  const fs::path file = expand_path(path);
  std::error_code error;
  check(fs::exists(file, error), "{}: there is no such file; {} names it", file.string(), key);
  check(!fs::is_directory(file, error), "{}: is a folder, expected a file; {} names it", file.string(), key);
  check(std::ifstream(file).good(), "{}: cannot open; {} names it", file.string(), key);
}

void check_files(const Recipe& recipe) {
  const DataRecipe& d = recipe.data;
  if (d.source != "python") {
    for (const std::string& path : d.train) check_opens("data.train", path);
    for (const std::string& path : d.validation) check_opens("data.validation", path);
  }
  if (d.tokenizer == "wordpiece" && !d.vocabulary.empty()) check_opens("data.vocabulary", d.vocabulary);
}

void check_device(const Recipe& recipe) {
  const std::string& name = recipe.train.device;
  std::optional<torch::Device> device;
  try {
    device = torch::Device(name);
  } catch (const c10::Error&) {
  }
  check(device && (device->is_cpu() || device->is_cuda()),
        "[train] train.device = \"{}\" is none of cpu, cuda, cuda:N", name);
  if (device->is_cpu()) return;
  const auto found = static_cast<std::int64_t>(torch::cuda::device_count());
  check(found > 0,
        "[train] train.device = \"{}\": this torch finds no CUDA device; `comera doctor` tells more", name);
  check(device->index() < found, "[train] train.device = \"{}\": there are {} CUDA devices, counted from 0",
        name, found);
}

void check_shapes(const Recipe& recipe) {
  nn::check_model(model_options(recipe, expected_vocabulary(recipe), /*labels=*/0), layer_rules(recipe));
}

constexpr std::array kChecks{check_source, check_files, check_device, check_shapes};

}  // namespace

fs::path expand_path(const std::string& path) {
  if (path.empty() || path[0] != '$') return path;
  const auto slash = path.find('/');
  const std::string name = path.substr(1, slash == std::string::npos ? slash : slash - 1);
  const char* value = std::getenv(name.c_str());
  const fs::path root = value && *value ? value : name == "COMERA_DATA" ? "../shared/data" : "";
  check(!root.empty(), "{}: the environment variable {} is not set", path, name);
  return slash == std::string::npos ? root : root / path.substr(slash + 1);
}

std::int64_t expected_vocabulary(const Recipe& recipe) {
  const DataRecipe& d = recipe.data;
  if (d.tokenizer == "wordpiece" && !d.vocabulary.empty() &&
      std::filesystem::exists(expand_path(d.vocabulary)))
    return data::load_wordpiece(expand_path(d.vocabulary), d.lowercase)->vocabulary_size();
  return d.vocabulary_size;
}

std::int64_t expected_labels(const Recipe& recipe) {
  constexpr std::int64_t kAssumed = 24;
  return recipe.data.labels.empty() ? kAssumed : static_cast<std::int64_t>(recipe.data.labels.size());
}

void check_task(const Recipe& recipe) {
  for (const auto& part : kChecks) part(recipe);
}

std::vector<std::string> problems(const Recipe& recipe) {
  std::vector<std::string> found;
  for (const auto& part : kChecks) {
    try {
      part(recipe);
    } catch (const Error& error) {
      found.push_back(error.what());
    }
  }
  return found;
}

bool takes_pairs(const Recipe& recipe) {
  const DataRecipe& d = recipe.data;
  if (d.source == "python" || d.source == "text") return false;
  return d.source == "table" ? d.text.size() == 2 : data::preset_source(d.source, "").text.size() == 2;
}

Task make_task(const Recipe& recipe, const Say& say) {
  check_task(recipe);  // before data is prepared, which may take minutes
  Task task;
  const DataRecipe& d = recipe.data;
  if (d.tokenizer == "wordpiece") {
    task.tokenizer = data::load_wordpiece(expand_path(d.vocabulary), d.lowercase);
  } else {
    task.tokenizer = trained_tokenizer(recipe, say);
  }
  if (d.source == "python") {
    data::PreparedCorpus corpus =
        data::prepare_corpus(corpus_options(recipe), *task.tokenizer, prepare_options(recipe, say));
    for (const auto& entry : corpus.summary.classes) task.labels.push_back(entry.name);
    task.notes.push_back(
        fmt::format("corpus: {} functions in {} files; {} classes, {} training and {} held-out functions, "
                    "majority baseline {:.1f}%",
                    corpus.summary.functions, corpus.summary.files, task.classes(), corpus.summary.train(),
                    corpus.summary.held_out(), 100 * corpus.summary.majority_baseline()));
    task.train = std::move(corpus.train);
    task.held_out = std::move(corpus.held_out);
  } else {
    const data::LabelMap given = d.labels.empty() ? data::LabelMap() : data::LabelMap(d.labels);
    task.train = prepare(recipe, d.train, "data.train", given, *task.tokenizer, say);
    const data::LabelMap labels = data::labels_of(*task.train);
    task.labels = labels.names();
    if (!d.validation.empty())
      task.held_out = prepare(recipe, d.validation, "data.validation", labels, *task.tokenizer, say);
  }
  task.notes.push_back(sizes("training", *task.train));
  if (task.held_out) task.notes.push_back(sizes("held out", *task.held_out));
  return task;
}

Task make_evaluation_task(const Recipe& recipe, std::shared_ptr<const data::Tokenizer> tokenizer,
                          const std::vector<std::string>& labels, const std::vector<std::string>& files,
                          const Say& say) {
  check_source(recipe);
  Task task;
  task.tokenizer = std::move(tokenizer);
  task.labels = labels;
  if (recipe.data.source == "python" && files.empty()) {
    data::PreparedCorpus corpus =
        data::prepare_corpus(corpus_options(recipe), *task.tokenizer, prepare_options(recipe, say));
    std::vector<std::string> found;
    for (const auto& entry : corpus.summary.classes) found.push_back(entry.name);
    check(found == labels,
          "[eval] the installed packages give other classes ({}) than the model was trained on ({})",
          fmt::join(found, ", "), fmt::join(labels, ", "));
    task.held_out = std::move(corpus.held_out);
  } else {
    const auto& paths = files.empty() ? recipe.data.validation : files;
    check(!paths.empty(), "[eval] no data: give a file, or data.validation in the recipe");
    const data::LabelMap map = labels.empty() ? data::LabelMap() : data::LabelMap(labels);
    task.held_out = prepare(recipe, paths, "data.validation", map, *task.tokenizer, say);
  }
  task.notes.push_back(sizes("held out", *task.held_out));
  return task;
}

}  // namespace comera::train
