#include "command.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/prepare.h>
#include <comera/nn/factor_scope.h>
#include <comera/train/batch.h>
#include <comera/train/saved_model.h>
#include <comera/train/task.h>

#include <poll.h>
#include <unistd.h>

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
  data::EncodedExample sample;
};

// One line of input, for a pair two texts with a tab between them.
data::EncodedExample encode(const train::SavedModel& saved, const std::string& text,
                            const std::string& place) {
  const std::int64_t length = saved.recipe.data.max_length;
  if (const auto bad = invalid_utf8(text)) fail("{}: invalid UTF-8 at byte {}", place, *bad);
  const auto tabs = std::count(text.begin(), text.end(), '\t');
  if (!train::takes_pairs(saved.recipe)) {
    check(tabs == 0, "{}: has a tab, but the model reads single texts", place);
    return data::encode_text(*saved.tokenizer, text, length);
  }
  check(tabs == 1, "{}: has {} tabs; the model reads pairs of texts with one tab between them", place, tabs);
  const auto tab = text.find('\t');
  return data::encode_pair(*saved.tokenizer, text.substr(0, tab), text.substr(tab + 1), length);
}

// Names are shown on one line, whatever is in them.
std::string shown(const std::string& label) {
  std::string text;
  for (const char c : label) {
    if (c == '\t' || c == '\n' || c == '\r' || c == '\\')
      text += c == '\t' ? "\\t" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\\\";
    else
      text += c;
  }
  return text;
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
    text += fmt::format("{}{}\t{:.4f}", i ? "\t" : "", shown(saved.labels[indices[i].item<std::int64_t>()]),
                        values[i].item<double>());
  say(false, text);
}

void classify(const Options& options, train::SavedModel& saved, const std::vector<Line>& lines) {
  data::Batch batch;
  batch.size = static_cast<std::int64_t>(lines.size());
  for (const Line& line : lines)
    batch.length = std::max<std::int64_t>(batch.length, line.sample.tokens.size());
  batch.tokens.assign(batch.size * batch.length, std::max(0, saved.tokenizer->special().pad));
  batch.segments.assign(batch.size * batch.length, 0);
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& [tokens, first_segment, cut] = lines[b].sample;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      batch.tokens[b * batch.length + t] = tokens[t];
      batch.segments[b * batch.length + t] = static_cast<std::int64_t>(t) >= first_segment;
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
  check(torch::isfinite(probabilities).all().item<bool>(),
        "{}: its predictions are not finite: its run had gone wrong; train again, with a lower "
        "train.learning_rate",
        options.checkpoint);
  for (std::int64_t b = 0; b < batch.size; ++b) print_labels(options, saved, lines[b], probabilities[b]);
}

// Goes on from the text with the most probable token, `length` times.
void continue_text(const Options& options, train::SavedModel& saved, const Line& line) {
  std::vector<std::int32_t> tokens = line.sample.tokens;
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

// Whether a read would find something (an end counts) without waiting for it.
bool more_waits(std::istream& in) {
  if (&in != &std::cin || in.rdbuf()->in_avail() > 0) return true;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

int run(const Options& options) {
  std::ios::sync_with_stdio(false);  // or std::cin has no buffer to ask about
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
  const auto flush = [&] {
    if (!lines.empty()) classify(options, saved, lines);
    lines.clear();
  };
  std::int64_t number = 0;
  for (std::string text; std::getline(in, text);) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    Line line{++number, {}};
    try {
      line.sample = encode(saved, text, fmt::format("{}:{}", source, number));
    } catch (const Error&) {
      flush();  // the lines before are fine
      throw;
    }
    if (head == nn::Head::next_token) {
      continue_text(options, saved, line);
      continue;
    }
    lines.push_back(std::move(line));
    // Whoever writes line by line gets an answer to each.
    if (static_cast<std::int64_t>(lines.size()) == options.batch_size || !more_waits(in)) flush();
  }
  flush();
  check(!in.bad(), "{}: cannot read on after line {}", source, number);
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
  command->add_option("--threads", options->threads, "CPU threads; 0 = all available")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command->add_flag("--json", options->json, "one JSON object a line");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
