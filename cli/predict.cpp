#include "command.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/prepare.h>
#include <comera/nn/factor_scope.h>
#include <comera/train/batch.h>
#include <comera/train/saved_model.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

namespace comera::cli {
namespace {

struct Options {
  std::string checkpoint, file = "-";
  std::int64_t threads = 0, batch_size = 32, top = 1, length = 32;
  bool json = false;
};

struct Line {
  std::int64_t number = 0;
  std::string text;
};

// One line of input, for a pair two texts with a tab between them.
data::EncodedExample encode(const train::SavedModel& saved, const Line& line, const std::string& source) {
  const std::int64_t length = saved.recipe.data.max_length;
  if (const auto bad = invalid_utf8(line.text))
    fail("{}:{}: invalid UTF-8 at byte {}", source, line.number, *bad);
  const auto tab = line.text.find('\t');
  if (tab == std::string::npos) return data::encode_text(*saved.tokenizer, line.text, length);
  check(saved.recipe.model.segments > 1, "{}:{}: has a tab, but the model reads single texts", source,
        line.number);
  return data::encode_pair(*saved.tokenizer, line.text.substr(0, tab), line.text.substr(tab + 1), length);
}

void print_labels(const Options& options, const train::SavedModel& saved, const Line& line,
                  const torch::Tensor& row) {
  const auto [values, indices] = row.topk(std::min<std::int64_t>(options.top, row.size(0)));
  if (options.json) {
    Json json{{"line", line.number}, {"predictions", Json::array()}};
    for (std::int64_t i = 0; i < values.size(0); ++i)
      json["predictions"].push_back({{"label", saved.labels[indices[i].item<std::int64_t>()]},
                                     {"probability", values[i].item<double>()}});
    say(false, json.dump());
    return;
  }
  std::string text;
  for (std::int64_t i = 0; i < values.size(0); ++i)
    text += fmt::format("{}{}\t{:.4f}", i ? "\t" : "", saved.labels[indices[i].item<std::int64_t>()],
                        values[i].item<double>());
  say(false, text);
}

void classify(const Options& options, train::SavedModel& saved, const std::vector<Line>& lines,
              const std::string& source) {
  data::Batch batch;
  std::vector<data::EncodedExample> examples;
  for (const Line& line : lines) examples.push_back(encode(saved, line, source));
  batch.size = static_cast<std::int64_t>(lines.size());
  for (const auto& example : examples)
    batch.length = std::max<std::int64_t>(batch.length, example.tokens.size());
  batch.tokens.assign(batch.size * batch.length, std::max(0, saved.tokenizer->special().pad));
  batch.segments.assign(batch.size * batch.length, 0);
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& tokens = examples[b].tokens;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      batch.tokens[b * batch.length + t] = tokens[t];
      batch.segments[b * batch.length + t] = static_cast<std::int64_t>(t) >= examples[b].first_segment;
    }
    batch.lengths.push_back(tokens.size());
    batch.labels.push_back(0);
    batch.sample_ids.push_back(b);
  }
  const train::ModelBatch inputs = train::make_batch(
      batch, 0, batch.size, {.head = nn::Head::classifier, .special = saved.tokenizer->special()}, 0);
  nn::Context context;
  context.lengths = inputs.lengths;
  context.sample_ids = inputs.sample_ids;
  const torch::Tensor probabilities = saved.model->logits(inputs.input, context).softmax(-1);
  for (std::int64_t b = 0; b < batch.size; ++b) print_labels(options, saved, lines[b], probabilities[b]);
}

// Goes on from the text with the most probable token, `length` times.
void continue_text(const Options& options, train::SavedModel& saved, const Line& line,
                   const std::string& source) {
  std::vector<std::int32_t> tokens = encode(saved, line, source).tokens;
  tokens.pop_back();  // the closing [SEP] would end the text
  const std::size_t prompt = tokens.size();
  const data::SpecialTokens special = saved.tokenizer->special();
  while (static_cast<std::int64_t>(tokens.size() - prompt) < options.length) {
    const std::size_t from =
        tokens.size() - std::min<std::size_t>(tokens.size(), saved.recipe.data.max_length);
    const std::vector<std::int64_t> window(tokens.begin() + from, tokens.end());
    const auto count = static_cast<std::int64_t>(window.size());
    nn::ModelInput input;
    input.tokens = torch::tensor(window).unsqueeze(0);
    input.places = torch::tensor({count - 1});
    nn::Context context;
    context.lengths = torch::tensor({count});
    context.sample_ids = torch::zeros({1}, torch::kInt64);
    const auto next =
        static_cast<std::int32_t>(saved.model->logits(input, context)[0].argmax().item<std::int64_t>());
    if (next == special.sep || next == special.pad) break;
    tokens.push_back(next);
  }
  const std::string text = saved.tokenizer->decode({tokens.begin() + prompt, tokens.end()});
  say(false, options.json ? Json{{"line", line.number}, {"continuation", text}}.dump() : text);
}

int run(const Options& options) {
  set_threads(options.threads);
  train::SavedModel saved = train::load_model(options.checkpoint);
  const nn::Head head = saved.model->options().head;
  check(head != nn::Head::masked, "[predict] a masked head has nothing to say about whole texts; use eval");
  std::ifstream file;
  if (options.file != "-") {
    check(!std::filesystem::is_directory(options.file), "{}: is a folder, expected a file of texts",
          options.file);
    file.open(options.file);
    check(file.good(), "{}: cannot open", options.file);
  }
  std::istream& in = options.file == "-" ? std::cin : file;
  const std::string source = options.file == "-" ? "stdin" : options.file;

  torch::NoGradGuard no_grad;
  nn::FactorScope factors(*saved.model);  // built once, rank scales folded in
  std::vector<Line> lines;
  Line line;
  const auto flush = [&] {
    if (!lines.empty()) classify(options, saved, lines, source);
    lines.clear();
  };
  while (!stop_requested && std::getline(in, line.text)) {
    ++line.number;
    if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
    if (head == nn::Head::next_token) {
      continue_text(options, saved, line, source);
      continue;
    }
    lines.push_back(line);
    if (static_cast<std::int64_t>(lines.size()) == options.batch_size) flush();
  }
  flush();
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("predict", "Label texts, or go on from them, one line each");
  command->add_option("checkpoint", options->checkpoint, "checkpoint, for example runs/demo/best.ckpt")
      ->required();
  command
      ->add_option("file", options->file,
                   "text, one a line (pairs: a tab between the two); - = standard input")
      ->capture_default_str();
  command->add_option("--top", options->top, "most probable labels to show")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--length", options->length, "tokens to add (next-token models)")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--batch-size", options->batch_size, "lines at a time")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "CPU threads; 0 = all available")->capture_default_str();
  command->add_flag("--json", options->json, "one JSON object a line");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
