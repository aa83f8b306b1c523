#include "delimited.h"
#include "jsonl.h"
#include "lines.h"

#include <comera/base/error.h>
#include <comera/data/rows.h>

namespace comera::data {

Format parse_format(std::string_view name) {
  for (const Format format : {Format::tsv, Format::csv, Format::jsonl})
    if (to_string(format) == name) return format;
  fail("unknown format '{}'; use tsv, csv or jsonl", name);
}

std::string to_string(Format format) {
  switch (format) {
    case Format::tsv:
      return "tsv";
    case Format::csv:
      return "csv";
    case Format::jsonl:
      return "jsonl";
  }
  fail("format {} is none", static_cast<int>(format));
}

Format format_of(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".tsv" || extension == ".txt") return Format::tsv;
  if (extension == ".csv") return Format::csv;
  if (extension == ".jsonl" || extension == ".json") return Format::jsonl;
  fail("{}: its extension '{}' does not tell its format; name it (tsv, csv or jsonl)", path.string(),
       extension);
}

std::unique_ptr<RowReader> open_rows(const std::filesystem::path& path, const RowOptions& options) {
  RowOptions resolved = options;
  if (!resolved.format) resolved.format = format_of(path);
  return open_rows(open_stream(path), path.string(), resolved);
}

std::unique_ptr<RowReader> open_rows(std::unique_ptr<std::istream> input, const std::string& name,
                                     const RowOptions& options) {
  check(options.format.has_value(), "{}: name its format (tsv, csv or jsonl)", name);
  check(options.longest_row >= 1, "{}: longest_row is {}; it must be at least 1", name, options.longest_row);
  LineReader lines(std::move(input), name, options.longest_row);
  if (*options.format == Format::jsonl) return std::make_unique<JsonlReader>(std::move(lines), options);
  return std::make_unique<DelimitedReader>(std::move(lines), *options.format, options);
}

}  // namespace comera::data
