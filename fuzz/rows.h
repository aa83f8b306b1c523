// What holds for rows of every format.
#pragma once

#include "require.h"

#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/data/rows.h>

#include <sstream>
#include <string>
#include <string_view>

namespace comera::fuzz {

/// Reads all rows of `content` with two columns; an Error must name the file.
inline void read_rows(std::string_view content, data::Format format, bool header,
                      std::vector<std::string> columns) {
  data::RowOptions options{
      .columns = std::move(columns), .format = format, .header = header, .longest_row = 4096};
  try {
    const auto reader =
        data::open_rows(std::make_unique<std::istringstream>(std::string(content)), "input", options);
    std::int64_t line = 0;
    for (data::Row row; reader->next(row);) {
      REQUIRE(row.fields.size() == options.columns.size());
      REQUIRE(row.line > line);
      line = row.line;
      for (const auto& field : row.fields) {
        REQUIRE(!invalid_utf8(field));
        REQUIRE(field.find('\0') == std::string::npos);
        REQUIRE(field.size() <= 4096);
      }
    }
    REQUIRE(reader->bytes_read() == static_cast<std::int64_t>(content.size()));
  } catch (const Error& error) {
    const std::string_view message = error.what();
    REQUIRE(message.starts_with("input:") && message.find('\n') == std::string_view::npos);
    REQUIRE(message.size() < 4096);
  }
}

}  // namespace comera::fuzz
