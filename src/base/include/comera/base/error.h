// The one exception type of comera, and checks that throw it before any work is done.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace comera {

/// Thrown for everything a user can mend: bad options, bad files, shapes that do not fit.
/// The message is one line: `[where] what, with the value received; what to do`.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error with the formatted text unless `condition` holds.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace comera
