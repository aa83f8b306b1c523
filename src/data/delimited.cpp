#include "delimited.h"

#include "names.h"

#include <comera/base/error.h>
#include <comera/base/text.h>

#include <algorithm>

namespace comera::data {

DelimitedReader::DelimitedReader(LineReader lines, Format format, const RowOptions& options)
    : lines_(std::move(lines)), format_(format) {
  check(read_record(), "{}: is empty", lines_.name());
  expected_ = record_.size();
  pending_ = !options.header;
  choose_columns(options);
}

void DelimitedReader::choose_columns(const RowOptions& options) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < expected_; ++i)
    names.push_back(options.header ? record_[i] : std::to_string(i + 1));
  for (const auto& column : options.columns) {
    const auto found = std::find(names.begin(), names.end(), column);
    if (found == names.end()) {
      const std::string near = options.header ? nearest_name(column, names) : "";
      fail("{}:{}: no column '{}'{}; the columns are {}", lines_.name(), record_line_, column,
           near.empty() ? "" : fmt::format(", did you mean '{}'", shown(near)), listed(names));
    }
    check(std::find(found + 1, names.end(), column) == names.end(), "{}:{}: two columns are named '{}'",
          lines_.name(), record_line_, column);
    chosen_.push_back(static_cast<std::size_t>(found - names.begin()));
  }
}

bool DelimitedReader::next(Row& row) {
  if (!pending_ && !read_record()) return false;
  pending_ = false;
  check(record_.size() == expected_, "{}:{}: expected {} fields, got {}", lines_.name(), record_line_,
        expected_, record_.size());
  row.line = record_line_;
  row.fields.resize(chosen_.size());
  for (std::size_t i = 0; i < chosen_.size(); ++i) row.fields[i] = record_[chosen_[i]];
  return true;
}

bool DelimitedReader::read_record() {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (expected_ != 1 && without_carriage_return(line).empty());
  record_line_ = lines_.number();
  format_ == Format::tsv ? split_tabs(line) : split_commas(line);
  return true;
}

void DelimitedReader::split_tabs(std::string_view line) {
  line = without_carriage_return(line);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin != std::string_view::npos; ++count) {
    const auto tab = line.find('\t', begin);
    if (count == record_.size()) record_.emplace_back();
    record_[count].assign(line.substr(begin, tab - begin));
    begin = tab == std::string_view::npos ? tab : tab + 1;
  }
  record_.resize(count);
}

void DelimitedReader::split_commas(std::string_view line) {
  std::size_t count = 0, read = line.size();
  std::size_t position = 0;
  const auto at_end = [&] { return position >= without_carriage_return(line).size(); };
  while (true) {
    if (count == record_.size()) record_.emplace_back();
    std::string& field = record_[count++];
    field.clear();
    if (!at_end() && line[position] == '"') {
      const std::int64_t opened = lines_.number();
      for (++position;;) {
        const auto quote = line.find('"', position);
        field.append(line.substr(position, quote - position));
        if (quote == std::string_view::npos) {
          // The field goes on over the line's end.
          field.push_back('\n');
          position = 0;
          check(lines_.next(line), "{}:{}: a quoted field is not closed before the end of the file",
                lines_.name(), opened);
          read += line.size() + 1;
          check(read <= static_cast<std::size_t>(lines_.longest()),
                "{}:{}: a row longer than {} bytes; is the quote of this line closed?", lines_.name(), opened,
                lines_.longest());
        } else if (quote + 1 < line.size() && line[quote + 1] == '"') {
          field.push_back('"');
          position = quote + 2;
        } else {
          position = quote + 1;
          break;
        }
      }
      check(at_end() || line[position] == ',',
            "{}:{}: text after a closing quote; write a quote inside a field as \"\"", lines_.name(),
            lines_.number());
    } else {
      const std::string_view rest = without_carriage_return(line).substr(position);
      field.assign(rest.substr(0, rest.find(',')));
      check(field.find('"') == std::string::npos,
            "{}:{}: a quote inside a field that does not begin with one; write \"...\"\"...\" (RFC 4180)",
            lines_.name(), lines_.number());
      position += field.size();
    }
    if (at_end()) break;
    ++position;  // the comma
    // After a last comma comes one more field, which is empty.
  }
  record_.resize(count);
}

}  // namespace comera::data
