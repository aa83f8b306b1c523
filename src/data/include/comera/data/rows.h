// Rows of TSV, CSV and JSONL files by column name, one at a time: memory is bounded by the longest row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace comera::data {

/// tsv: tab-separated, no quoting at all. csv: RFC 4180, quoted fields may hold commas, quotes and line ends.
/// jsonl: one JSON object a line, its strings, numbers and booleans by key.
enum class Format { tsv, csv, jsonl };

/// "tsv", "csv" or "jsonl"; Error for another name.
Format parse_format(std::string_view name);
std::string to_string(Format format);
/// By extension: .tsv and .txt, .csv, .jsonl and .json; Error for another, saying how to name the format.
Format format_of(const std::filesystem::path& path);

struct RowOptions {
  std::vector<std::string> columns{};  ///< the fields wanted, in this order
  std::optional<Format> format{};      ///< by extension when absent
  bool header = true;  ///< tsv, csv: the first row names the columns; without, they are "1", "2", ...
  std::int64_t longest_row = std::int64_t{1} << 20;  ///< bytes; a longer row is an error
};

struct Row {
  std::int64_t line = 0;            ///< where the row starts in its file, from 1
  std::vector<std::string> fields;  ///< one for each of RowOptions::columns, valid UTF-8 without NUL
};

/// Line ends may be LF or CRLF, the last one may be missing, a byte order mark is skipped, empty lines are
/// skipped (in a file of one column they are rows). Everything else that does not fit is an Error `file:line:
/// what`.
class RowReader {
 public:
  virtual ~RowReader() = default;
  /// False at the end. Reuses the storage of `row`.
  virtual bool next(Row& row) = 0;
  /// Bytes of the file read so far, for progress.
  virtual std::int64_t bytes_read() const = 0;
};

/// Throws Error when the file cannot be read, is empty or has no such column (with the nearest name).
std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const RowOptions& options);
/// The same over a stream called `name` in messages; options.format must be set.
std::unique_ptr<RowReader> open_rows(std::unique_ptr<std::istream> input, const std::string& name,
                                     const RowOptions& options);

}  // namespace comera::data
