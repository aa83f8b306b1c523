// Which partial products a look-up needs: integers only.
//
// The cores are split into a prefix 1..h and a suffix h+1..K. A chain is one side seen from its border: level
// j holds the products of its first j cores for some combinations of their digits. The code of a combination
// is d_1 + M_1 d_2 + M_2 d_3 + .. with M_j = m_1*..*m_j, so that entries in order of their codes are grouped
// by the newest digit, and code modulo M_{j-1} is the entry's parent one level below.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::ops::ttm {

using Integers = std::vector<std::int64_t>;

/// The distinct values of a list, ascending, and for each entry of the list its place among them.
struct Distinct {
  Integers values, place;
};
/// keys >= 0.
Distinct distinct(const Integers& keys);

/// For every place the entries of a list that have it, in order: entries[starts[p] .. starts[p + 1]).
struct Members {
  Integers starts, entries;
  std::int64_t places() const { return starts.size() - 1; }
};
Members members_of(const Integers& place, std::int64_t places);

/// Level j of a chain: its entries, by ascending code.
struct Level {
  Integers starts;   ///< entries of digit d: [starts[d], starts[d + 1])
  Integers parents;  ///< place on the level below; empty on the first level
  std::int64_t entries() const { return starts.back(); }
};
struct Chain {
  std::vector<Level> levels;
  Integers place;  ///< of every code asked for, on the last level
};
/// Levels for `codes` over the digits `modes`. The first level is the core itself; on others all combinations
/// are made where they are fewer than the codes, else only those that occur.
Chain make_chain(const Integers& codes, const Integers& modes);

/// The digits, column digits and ranks (K + 1) of a table's cores.
struct Geometry {
  Integers row_digits, col_digits, ranks;
  std::int64_t order() const { return row_digits.size(); }
};

/// A run of distinct rows with one suffix.
struct Block {
  std::int64_t begin, end, suffix;
};

struct Lookup {
  std::int64_t split;    ///< h: cores in the prefix
  Integers row_of;       ///< for every token its distinct row; rows are sorted by suffix, then prefix
  std::int64_t rows;     ///< distinct rows
  Chain prefix, suffix;  ///< the suffix chain starts at the last core; place is that of the rows
  std::vector<Block> blocks;
};

/// Number of cores in the prefix that costs the fewest multiplications for `tokens` look-ups. K >= 2.
std::int64_t choose_split(const Geometry& geometry, std::int64_t tokens);

/// `indices` lie within the table. Results depend on the arguments only.
Lookup make_lookup(const Integers& indices, const Geometry& geometry);

}  // namespace comera::ops::ttm
