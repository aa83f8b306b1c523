#include <comera/base/random.h>

#include <cmath>
#include <numbers>

namespace comera {

std::uint64_t RandomStream::below(std::uint64_t bound) {
  const auto next64 = [this] {
    const std::uint64_t high = (*this)();
    return high << 32 | (*this)();
  };
  // Reject the incomplete last interval so that every value is equally likely.
  const std::uint64_t threshold = -bound % bound;
  std::uint64_t value = next64();
  while (value < threshold) value = next64();
  return value % bound;
}

double RandomStream::uniform() {
  const std::uint64_t high = (*this)() >> 5, low = (*this)() >> 6;
  return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) / 9007199254740992.0;
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace comera
