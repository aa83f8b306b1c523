#include "ttm_embedding/lookup.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace comera::ops::ttm {
namespace {

std::int64_t product(const Integers& values, std::size_t begin, std::size_t end) {
  return std::accumulate(values.begin() + begin, values.begin() + end, std::int64_t{1}, std::multiplies<>());
}

// Positions of `keys` in ascending order of the keys, equal keys in order of position: radix sort, least
// significant digit first.
Integers sorted_positions(const Integers& keys) {
  constexpr int kBits = 11;
  constexpr std::int64_t kBuckets = 1 << kBits;
  Integers positions(keys.size()), next(keys.size());
  std::iota(positions.begin(), positions.end(), 0);
  const std::int64_t largest = keys.empty() ? 0 : *std::max_element(keys.begin(), keys.end());
  for (int shift = 0; shift < 63 && largest >> shift > 0; shift += kBits) {
    std::array<std::int64_t, kBuckets + 1> starts{};
    for (const std::int64_t key : keys) ++starts[(key >> shift) % kBuckets + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const std::int64_t position : positions)
      next[starts[(keys[position] >> shift) % kBuckets]++] = position;
    positions.swap(next);
  }
  return positions;
}

// What building one side for `rows` rows costs, in multiplications: modes, columns and ranks from its border
// on.
double chain_cost(const Geometry& side, double rows) {
  double combinations = side.row_digits[0], columns = side.col_digits[0], cost = 0;
  for (std::int64_t j = 1; j < side.order(); ++j) {
    combinations *= side.row_digits[j];
    cost += std::min(combinations, rows) * columns * side.ranks[j] * side.col_digits[j] * side.ranks[j + 1];
    columns *= side.col_digits[j];
  }
  return cost;
}

Geometry part(const Geometry& geometry, std::int64_t begin, std::int64_t end) {
  const auto slice = [](const Integers& values, std::int64_t from, std::int64_t to) {
    return Integers(values.begin() + from, values.begin() + to);
  };
  return {slice(geometry.row_digits, begin, end), slice(geometry.col_digits, begin, end),
          slice(geometry.ranks, begin, end + 1)};
}

Geometry reversed(Geometry side) {
  for (auto* values : {&side.row_digits, &side.col_digits, &side.ranks})
    std::reverse(values->begin(), values->end());
  return side;
}

// The chain's code of a number whose row-major digits are `modes`.
std::int64_t chain_code(std::int64_t number, const Integers& modes, std::int64_t combinations) {
  std::int64_t code = 0, weight = combinations;
  for (std::size_t k = modes.size(); k-- > 0;) {
    weight /= modes[k];
    code += number % modes[k] * weight;
    number /= modes[k];
  }
  return code;
}

// Blocks are tasks: of rows that share a suffix no more, in rows of their products, than this.
constexpr std::int64_t kTaskRows = 2048;

}  // namespace

Distinct distinct(const Integers& keys) {
  Distinct result;
  result.place.resize(keys.size());
  for (const std::int64_t position : sorted_positions(keys)) {
    if (result.values.empty() || result.values.back() != keys[position])
      result.values.push_back(keys[position]);
    result.place[position] = result.values.size() - 1;
  }
  return result;
}

Members members_of(const Integers& place, std::int64_t places) {
  Members result{Integers(places + 1), Integers(place.size())};
  for (const std::int64_t p : place) ++result.starts[p + 1];
  std::partial_sum(result.starts.begin(), result.starts.end(), result.starts.begin());
  Integers next = result.starts;
  for (std::size_t i = 0; i < place.size(); ++i) result.entries[next[place[i]]++] = i;
  return result;
}

Chain make_chain(const Integers& codes, const Integers& modes) {
  Chain chain;
  chain.levels.resize(modes.size());
  Integers wanted = codes;  // codes on level j
  std::int64_t combinations = product(modes, 0, modes.size());
  for (std::size_t j = modes.size(); j-- > 0;) {
    const std::int64_t mode = modes[j], below = combinations / mode, count = codes.size();
    Level& level = chain.levels[j];
    Distinct found;
    if (j == 0 || combinations <= count) {
      found.values.resize(combinations);
      std::iota(found.values.begin(), found.values.end(), 0);
      found.place = std::move(wanted);
    } else {
      found = distinct(wanted);
    }
    // The places of what was wanted: of the rows on the last level, of the children on every other.
    (j + 1 == modes.size() ? chain.place : chain.levels[j + 1].parents) = std::move(found.place);
    level.starts.resize(mode + 1);
    for (const std::int64_t code : found.values) ++level.starts[code / below + 1];
    std::partial_sum(level.starts.begin(), level.starts.end(), level.starts.begin());
    wanted = std::move(found.values);
    for (std::int64_t& code : wanted) code %= below;
    combinations = below;
  }
  return chain;
}

std::int64_t choose_split(const Geometry& geometry, std::int64_t tokens) {
  const double rows = tokens;
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t h = 1; h < geometry.order(); ++h) {
    const Geometry prefix = part(geometry, 0, h), suffix = reversed(part(geometry, h, geometry.order()));
    const double columns = product(geometry.col_digits, 0, geometry.order());
    const double cost =
        chain_cost(prefix, rows) + chain_cost(suffix, rows) + rows * columns * geometry.ranks[h];
    if (h > 1 && cost >= least) continue;
    best = h;
    least = cost;
  }
  return best;
}

Lookup make_lookup(const Integers& indices, const Geometry& geometry) {
  Lookup lookup;
  lookup.split = choose_split(geometry, indices.size());
  const std::int64_t order = geometry.order();
  const Geometry prefix = part(geometry, 0, lookup.split), suffix = part(geometry, lookup.split, order);
  const std::int64_t prefixes = product(prefix.row_digits, 0, prefix.order());
  const std::int64_t suffixes = product(suffix.row_digits, 0, suffix.order());

  Integers keys(indices.size());
  for (std::size_t t = 0; t < indices.size(); ++t)
    keys[t] =
        indices[t] % suffixes * prefixes + chain_code(indices[t] / suffixes, prefix.row_digits, prefixes);
  Distinct rows = distinct(keys);
  lookup.row_of = std::move(rows.place);
  lookup.rows = rows.values.size();

  Integers prefix_codes(lookup.rows), suffix_codes(lookup.rows);
  for (std::int64_t row = 0; row < lookup.rows; ++row) {
    prefix_codes[row] = rows.values[row] % prefixes;
    suffix_codes[row] =
        rows.values[row] / prefixes;  // row-major is the code of a chain that starts at the end
  }
  lookup.prefix = make_chain(prefix_codes, prefix.row_digits);
  lookup.suffix = make_chain(suffix_codes, reversed(suffix).row_digits);

  const std::int64_t columns = product(prefix.col_digits, 0, prefix.order());
  const std::int64_t most = std::max<std::int64_t>(1, kTaskRows / columns);
  for (std::int64_t row = 0; row < lookup.rows; ++row) {
    const std::int64_t place = lookup.suffix.place[row];
    if (lookup.blocks.empty() || lookup.blocks.back().suffix != place ||
        lookup.blocks.back().end - lookup.blocks.back().begin == most)
      lookup.blocks.push_back({row, row, place});
    ++lookup.blocks.back().end;
  }
  return lookup;
}

}  // namespace comera::ops::ttm
