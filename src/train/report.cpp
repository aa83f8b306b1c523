#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/text.h>
#include <comera/train/report.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace comera::train {
namespace {

constexpr const char* kCsvHeader =
    "step,loss,accuracy,gradient_norm,learning_rate,seconds,tokens,parameters,compression,median_rank,peak_"
    "bytes\n";

// Keeps the lines of earlier steps; `step_of` reads a line's step, or -1 for lines to keep whatever the step.
void keep_until(const std::filesystem::path& path, std::int64_t step,
                const std::function<std::int64_t(const std::string&)>& step_of) {
  std::ifstream in(path);
  if (!in) return;
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (step_of(line) <= step) kept += line + "\n";
  in.close();
  write_file(path, kept);
}

std::int64_t jsonl_step(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  // A line that a kill cut short is dropped.
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    return std::numeric_limits<std::int64_t>::max();
  return json["step"].get<std::int64_t>();
}
std::int64_t csv_step(const std::string& line) {
  if (line.rfind("step,", 0) == 0) return -1;
  const bool whole = std::count(line.begin(), line.end(), ',') ==
                     std::count(kCsvHeader, kCsvHeader + std::strlen(kCsvHeader), ',');
  return whole ? std::strtoll(line.c_str(), nullptr, 10) : std::numeric_limits<std::int64_t>::max();
}

struct AppendFile {
  explicit AppendFile(const std::filesystem::path& path)
      : path(path.string()), handle(std::fopen(path.c_str(), "ae")) {
    check(handle != nullptr, "{}: cannot write: {}", this->path, std::strerror(errno));
  }
  ~AppendFile() { std::fclose(handle); }
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  void line(const std::string& text) {
    const bool written = std::fputs(text.c_str(), handle) >= 0 && std::fflush(handle) == 0;
    check(written, "{}: cannot write: {}", path, std::strerror(errno));
  }
  std::string path;
  std::FILE* handle;
};

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Json StepRecord::to_json() const {
  return {{"step", step},
          {"loss", loss},
          {"accuracy", accuracy},
          {"gradient_norm", gradient_norm},
          {"learning_rate", learning_rate},
          {"seconds", seconds},
          {"tokens", tokens},
          {"parameters", parameters},
          {"compression", compression},
          {"median_rank", median_rank},
          {"peak_bytes", peak_bytes},
          {"plan_seconds", plan_seconds}};
}

struct RunLog::Files {
  explicit Files(const std::filesystem::path& folder)
      : jsonl(folder / "metrics.jsonl"), csv(folder / "metrics.csv"), events(folder / "events.jsonl") {}
  AppendFile jsonl, csv, events;
};

RunLog::RunLog(const std::filesystem::path& folder, std::int64_t from_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  check(!error, "{}: cannot make the folder: {}", folder.string(), error.message());
  keep_until(folder / "metrics.jsonl", from_step, jsonl_step);
  keep_until(folder / "events.jsonl", from_step, jsonl_step);
  keep_until(folder / "metrics.csv", from_step, csv_step);
  const bool fresh = !std::filesystem::exists(folder / "metrics.csv") ||
                     std::filesystem::file_size(folder / "metrics.csv") == 0;
  files_ = std::make_unique<Files>(folder);
  if (fresh) files_->csv.line(kCsvHeader);
}

RunLog::~RunLog() = default;

void RunLog::step(const StepRecord& r) {
  files_->jsonl.line(r.to_json().dump() + "\n");
  files_->csv.line(fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{:.6g},{:g},{}\n", r.step, r.loss,
                               r.accuracy, r.gradient_norm, r.learning_rate, r.seconds, r.tokens,
                               r.parameters, r.compression, r.median_rank, r.peak_bytes));
}

void RunLog::event(std::int64_t step, const std::string& kind, const Json& what) {
  Json line{{"step", step}, {"kind", kind}};
  line.update(what);
  files_->events.line(line.dump() + "\n");
}

std::string ProgressLine::add(const StepRecord& record) {
  constexpr std::size_t kWindow = 20;
  window_.push_back(record);
  if (window_.size() > kWindow) window_.pop_front();
  double loss = 0, accuracy = 0, seconds = 0;
  std::int64_t tokens = 0;
  for (const StepRecord& r : window_)
    loss += r.loss, accuracy += r.accuracy, seconds += r.seconds, tokens += r.tokens;
  const double n = window_.size();
  std::string line = fmt::format("step {}/{}  loss {:.3f}  acc {:.3f}  {:.3f} s  {} tok/s  params {}",
                                 record.step, steps_, loss / n, accuracy / n, step_seconds(),
                                 format_count(tokens / seconds), format_count(record.parameters));
  if (record.median_rank > 0)
    line += fmt::format(" ({:.1f}x)  rank {:g}", record.compression, record.median_rank);
  return line + fmt::format("  peak {}  eta {}", format_bytes(record.peak_bytes),
                            format_duration((steps_ - record.step) * seconds / n));
}

double ProgressLine::step_seconds() const {
  std::vector<double> seconds;
  for (const StepRecord& r : window_) seconds.push_back(r.seconds);
  return median(seconds);
}

std::string layer_table(const nn::Model& model) {
  std::string table = fmt::format("{:<34} {:<9} {:<22} {:<26} {:>10} {:>11} {:>7}\n", "layer", "format",
                                  "digits", "ranks", "parameters", "dense", "ratio");
  for (const nn::LayerInfo& layer : model.layers()) {
    std::string digits = "-", ranks = "-";
    if (layer.shape) {
      digits = fmt::format("{} x {}", fmt::join(layer.shape->row_digits, ","),
                           fmt::join(layer.shape->col_digits, ","));
      ranks = fmt::format("{}", fmt::join(layer.shape->ranks, ","));
    }
    table += fmt::format(
        "{:<34} {:<9} {:<22} {:<26} {:>10} {:>11} {:>6.1f}x\n", layer.name, layer.format, digits, ranks,
        layer.parameters, layer.dense_parameters,
        static_cast<double>(layer.dense_parameters) / std::max<std::int64_t>(1, layer.parameters));
    if (!layer.warning.empty()) table += fmt::format("  warning: {}\n", layer.warning);
  }
  return table;
}

Json layers_json(const nn::Model& model) {
  Json layers = Json::array();
  for (const nn::LayerInfo& layer : model.layers()) {
    Json digits = nullptr, ranks = nullptr;
    if (layer.shape) {
      digits = {layer.shape->row_digits, layer.shape->col_digits};
      ranks = layer.shape->ranks;
    }
    layers.push_back({{"name", layer.name},
                      {"format", layer.format},
                      {"digits", digits},
                      {"ranks", ranks},
                      {"parameters", layer.parameters},
                      {"dense_parameters", layer.dense_parameters},
                      {"warning", layer.warning}});
  }
  return layers;
}

Json parameters_json(const nn::ModelSize& size) {
  return {{"total", size.total},
          {"cores", size.cores},
          {"rank_scales", size.rank_scales},
          {"other", size.other},
          {"dense_total", size.dense_total}};
}

}  // namespace comera::train
