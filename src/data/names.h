// Names from files in messages, which are one line and not longer than a person reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

/// `name` with control characters escaped, cut after some sixty bytes.
std::string shown(std::string_view name);

/// "a, b, c", or the first twenty "and 80 more", each as by shown().
std::string listed(const std::vector<std::string>& names);

}  // namespace comera::data
