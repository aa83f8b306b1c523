// Small random layers for property tests: prime, equal and extreme dimensions.
#pragma once

#include <comera/base/random.h>
#include <comera/plan/network.h>

#include <vector>

namespace comera::test {

/// An entry of the list.
inline std::int64_t pick(const std::vector<std::int64_t>& from, RandomStream& random) {
  return from[random.below(from.size())];
}

/// A TT layer of `cores` cores with digits and ranks of the lists; ranks are not held to what the digits can
/// carry.
inline format::Shape random_layer(int cores, const std::vector<std::int64_t>& digits,
                                  const std::vector<std::int64_t>& ranks, RandomStream& random) {
  const int split = 1 + static_cast<int>(random.below(cores - 1));
  std::vector<std::int64_t> in, out, inner;
  for (int k = 0; k < cores; ++k) (k < split ? in : out).push_back(pick(digits, random));
  for (int k = 0; k + 1 < cores; ++k) inner.push_back(pick(ranks, random));
  // A list of one number means another thing.
  inner.insert(inner.begin(), 1);
  inner.push_back(1);
  return format::tt(in, out, inner);
}

inline plan::Results random_results(RandomStream& random) {
  return std::vector{plan::Results::forward, plan::Results::without_input,
                     plan::Results::all}[random.below(3)];
}

/// One layer, or now and then several that run as one.
inline plan::Network random_network(int cores, RandomStream& random) {
  static const std::vector<std::int64_t> digits{1, 2, 3, 5, 7, 8, 16, 31, 64},
      ranks{1, 1, 2, 3, 4, 8, 17, 30, 100}, tokens{1, 2, 7, 64, 1000, 100'000};
  const format::Shape layer = random_layer(cores, digits, ranks, random);
  const std::size_t count = random.below(4) == 0 ? 3 : 1;
  return plan::layer_network(std::vector(count, layer), pick(tokens, random), random_results(random));
}

}  // namespace comera::test
