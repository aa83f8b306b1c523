// Small text helpers shared by readers and messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

/// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates included), or none.
std::optional<std::size_t> invalid_utf8(std::string_view text);

/// The known name nearest to `name` by edit distance, or empty when none is near. For "did you mean".
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// True when `name` matches `pattern`, where `*` stands for any run of characters (dots too).
bool matches_pattern(std::string_view pattern, std::string_view name);

/// "1.5k", "2.3M", "512" / "1.5 MB" / "2m05s" for people.
std::string format_count(double count);
std::string format_bytes(double bytes);
std::string format_duration(double seconds);

/// Parses "500k", "1.5M", "2G", "123"; throws Error with an example for any other form.
std::int64_t parse_count(std::string_view text);

}  // namespace comera
