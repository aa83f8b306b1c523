// One JSON object a line.
#pragma once

#include "lines.h"

#include <comera/data/rows.h>

namespace comera::data {

class JsonlReader : public RowReader {
 public:
  JsonlReader(LineReader lines, const RowOptions& options);
  bool next(Row& row) override;
  std::int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  LineReader lines_;
  std::vector<std::string> columns_;
};

}  // namespace comera::data
