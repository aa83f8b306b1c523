// The geometry of a weight held as tensor-train cores. Integers only. Symbols of the papers appear here once:
//
//   TT   W[in, out]:   in = m1*..*mp, out = n1*..*nq, K = p + q cores G_k [r_{k-1}, s_k, r_k], s = (m1..mp,
//   n1..nq) TTM  W[rows, cols]: rows = m1*..*mK, cols = n1*..*nK,   K cores G_k [r_{k-1}, m_k, n_k, r_k], s_k
//   = m_k n_k r_0 = r_K = 1; digits are row-major, the first is the most significant. Rank scales D_k [r_k],
//   k = 1..K-1:  W = G_1 D_1 G_2 D_2 .. G_K.
//
// "Bond k" (0-based, k = 0..K-2) is the rank index between core k and core k+1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::format {

enum class Kind { tt, ttm };

struct Shape {
  Kind kind = Kind::tt;
  std::vector<std::int64_t> row_digits;  ///< m: TT input digits, TTM row digits
  std::vector<std::int64_t> col_digits;  ///< n: TT output digits, TTM column digits
  std::vector<std::int64_t>
      ranks;              ///< K + 1 entries, both borders 1; inner ranks all >= 1, or all 0 (a dead weight)
  std::int64_t rows = 0;  ///< rows in use, at most the product of row_digits; the rest is padding
  std::int64_t cols = 0;  ///< columns in use, likewise

  bool operator==(const Shape&) const = default;

  std::int64_t order() const;                         ///< K, the number of cores
  std::int64_t bonds() const { return order() - 1; }  ///< K - 1
  std::int64_t mode(std::int64_t core) const;         ///< s_k
  std::int64_t rank(std::int64_t bond) const { return ranks[bond + 1]; }
  std::int64_t split() const { return row_digits.size(); }  ///< p: TT cores before the middle bond p - 1
  std::vector<std::int64_t> core_shape(std::int64_t core) const;
  bool dead() const { return order() > 1 && ranks[1] == 0; }

  std::int64_t core_parameters() const;   ///< sum_k r_{k-1} s_k r_k, exact
  std::int64_t scale_parameters() const;  ///< sum_k r_k over the bonds
  std::int64_t parameters() const { return core_parameters() + scale_parameters(); }
  std::int64_t dense_parameters() const { return rows * cols; }
  /// Size with every inner rank 1: sum_k s_k + K - 1 scales.
  std::int64_t minimum_parameters() const;
  /// What one rank at `bond` costs with the present ranks: s_k r_{k-1} + s_{k+1} r_{k+1} + 1 for its scale.
  std::int64_t rank_cost(std::int64_t bond) const;
  /// Largest rank `bond` can use: min of the products of the modes left and right of it.
  std::int64_t admissible_rank(std::int64_t bond) const;
};

/// Throws Error naming `where` unless the shape is consistent: digits >= 1, K + 1 ranks with border 1, rows
/// and cols within the products, no product past 2^63.
void validate(const Shape& shape, const std::string& where);

/// "TT 12,8,8 x 8,8,12 ranks 1,12,30,30,30,12,1".
std::string to_string(const Shape& shape);
std::uint64_t hash(const Shape& shape);

/// Rank lists as people write them. Accepted, for K cores:
///   one number r             every bond min(r, admissible rank)
///   K - 1 numbers            the inner bonds
///   K + 1 numbers            with both borders, which must be 1
/// Anything else is refused with an example. Returns K + 1 numbers.
std::vector<std::int64_t> expand_ranks(const std::vector<std::int64_t>& given, const Shape& digits_only,
                                       const std::string& where);

/// Shape of a TT linear layer in -> out; `ranks` in any accepted form.
Shape tt(std::vector<std::int64_t> in_digits, std::vector<std::int64_t> out_digits,
         std::vector<std::int64_t> ranks);
/// Shape of a TTM table with `rows` rows in use.
Shape ttm(std::int64_t rows, std::vector<std::int64_t> row_digits, std::vector<std::int64_t> col_digits,
          std::vector<std::int64_t> ranks);

}  // namespace comera::format
