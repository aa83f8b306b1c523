#include "jsonl.h"

#include "names.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace comera::data {
namespace {

// Receives the events of one line and keeps the top-level values of the wanted keys as text. Values of other
// keys are passed over without being stored, so depth and size of what a line holds do not matter.
class ChosenValues {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  ChosenValues(const std::vector<std::string>& columns, std::vector<std::string>& fields)
      : columns_(columns), fields_(fields), found_(columns.size(), false) {}

  bool null() { return other("null"); }
  bool boolean(bool value) { return text(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) { return text(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) { return text(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& written) { return text(written); }
  bool string(string_t& value) { return text(value); }
  bool binary(binary_t&) { return other("binary"); }
  bool start_object(std::size_t) { return open("an object"); }
  bool start_array(std::size_t) { return open("a list"); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    if (depth_ != 1) return true;
    keys_.push_back(name);
    const auto column = std::find(columns_.begin(), columns_.end(), name);
    current_ = column - columns_.begin();
    if (column == columns_.end()) return true;
    if (found_[current_]) return refuse(fmt::format("has the key '{}' twice", name));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    return refuse(fmt::format("not valid JSON near byte {} of the line", position));
  }

  // What is wrong with the line, or empty.
  std::string problem() const {
    if (!problem_.empty()) return problem_;
    const auto missing = std::find(found_.begin(), found_.end(), false);
    if (missing == found_.end()) return "";
    const std::string& column = columns_[missing - found_.begin()];
    const std::string near = nearest_name(column, keys_);
    return fmt::format("no key '{}'{}; the keys are {}", column,
                       near.empty() ? "" : fmt::format(", did you mean '{}'", shown(near)), listed(keys_));
  }

 private:
  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool wanted() const { return depth_ == 1 && current_ < columns_.size(); }
  bool text(std::string_view value) {
    if (depth_ == 0) return refuse("is not a JSON object");
    if (!wanted()) return true;
    if (value.find('\0') != std::string_view::npos)
      return refuse(fmt::format("NUL in the value of '{}'", columns_[current_]));
    fields_[current_].assign(value);
    found_[current_] = true;
    return true;
  }
  bool other(std::string_view kind) {
    if (depth_ == 0) return refuse("is not a JSON object");
    if (!wanted()) return true;
    return refuse(
        fmt::format("the value of '{}' is {}, expected text or a number", columns_[current_], kind));
  }
  bool open(std::string_view kind) {
    if (depth_ == 0 && kind != "an object") return refuse("is not a JSON object");
    if (depth_ > 0 && !other(kind)) return false;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::vector<std::string>& columns_;
  std::vector<std::string>& fields_;
  std::vector<bool> found_;
  std::vector<std::string> keys_;
  std::size_t current_ = 0, depth_ = 0;
  std::string problem_;
};

}  // namespace

JsonlReader::JsonlReader(LineReader lines, const RowOptions& options)
    : lines_(std::move(lines)), columns_(options.columns) {}

bool JsonlReader::next(Row& row) {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (line.find_first_not_of(" \t\r") == std::string_view::npos);
  row.line = lines_.number();
  row.fields.resize(columns_.size());
  ChosenValues values(columns_, row.fields);
  nlohmann::json::sax_parse(line.begin(), line.end(), &values);
  const std::string problem = values.problem();
  check(problem.empty(), "{}:{}: {}", lines_.name(), row.line, problem);
  return true;
}

}  // namespace comera::data
