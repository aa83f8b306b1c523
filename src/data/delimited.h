// The two row formats with one row a record: tab-separated without quoting, and comma-separated by RFC 4180.
#pragma once

#include "lines.h"

#include <comera/data/rows.h>

#include <vector>

namespace comera::data {

class DelimitedReader : public RowReader {
 public:
  DelimitedReader(LineReader lines, Format format, const RowOptions& options);
  bool next(Row& row) override;
  std::int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  void choose_columns(const RowOptions& options);
  bool read_record();
  void split_tabs(std::string_view line);
  void split_commas(std::string_view line);

  LineReader lines_;
  Format format_;
  std::vector<std::size_t> chosen_;
  std::size_t expected_ = 0;  // fields a record; 0 before the first one
  bool pending_ = false;      // the first record was read to count the columns, and is a row
  std::vector<std::string> record_;
  std::int64_t record_line_ = 0;
};

}  // namespace comera::data
