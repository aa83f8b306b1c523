// JSON for files and `--json` output.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string_view>

namespace comera {

/// Keeps the order in which keys were added, so that files read as they were written.
using Json = nlohmann::ordered_json;

/// Parses text from `source` (a path or a name for messages). Throws Error `source:line: what`.
/// Nesting beyond 64 levels, invalid UTF-8 and a key given twice in one object are refused.
Json parse_json(std::string_view text, std::string_view source);
Json read_json(const std::filesystem::path& path);

}  // namespace comera
