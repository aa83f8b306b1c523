// The one table of shapes that every check of the linear and table operators goes through.
#pragma once

#include <comera/weights/torch.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::test {

using Sizes = std::vector<std::int64_t>;

/// How the features of x lie in memory.
enum class Layout {
  contiguous,
  swapped,  ///< the first two dimensions exchanged
  columns,  ///< the last dimension is the slowest
  strided,  ///< every second feature of a wider tensor
};

struct LinearCase {
  std::string name;
  Sizes leading;  ///< x is [leading.., in]
  std::int64_t in, out, rank;
  bool bias = true;
  Layout layout = Layout::contiguous;

  std::int64_t tokens() const { return c10::multiply_integers(leading); }
};

inline const std::vector<LinearCase>& linear_cases() {
  static const std::vector<LinearCase> cases = {
      {"plain", {2, 3}, 6, 10, 4},
      {"no_bias", {2, 3}, 6, 10, 4, false},
      {"batch_0", {0, 3}, 6, 10, 4},
      {"batch_0_no_bias", {0}, 6, 10, 4, false},
      {"batch_1", {1}, 6, 10, 4},
      {"one_vector", {}, 6, 10, 4},
      {"rank_1", {5}, 6, 10, 1},
      {"rank_0", {5}, 6, 10, 0},
      {"rank_0_no_bias", {5}, 6, 10, 0, false},
      {"rank_above_modes", {5}, 4, 3, 9},
      {"one_feature", {5}, 1, 1, 1},
      {"primes", {7, 3}, 31, 37, 5},
      {"four_dimensions", {2, 3, 2, 2}, 5, 4, 2},
      {"swapped", {3, 4}, 6, 10, 4, true, Layout::swapped},
      {"columns", {9}, 6, 10, 4, true, Layout::columns},
      {"strided", {9}, 6, 10, 4, false, Layout::strided},
      {"several_strips", {101}, 8, 6, 3},
      {"several_blocks", {9001}, 4, 3, 2},
  };
  return cases;
}

struct FactorCase {
  std::string name;
  std::int64_t layers;
  Sizes row_digits, col_digits, ranks;  ///< the inner ranks

  std::int64_t order() const { return row_digits.size() + col_digits.size(); }
};

inline const std::vector<FactorCase>& factor_cases() {
  static const std::vector<FactorCase> cases = {
      {"plain", 1, {3, 4}, {2, 5}, {3, 4, 2}},
      {"low_rank", 1, {6}, {10}, {4}},
      {"low_rank_layers", 3, {6}, {10}, {4}},
      {"layers", 4, {3, 2, 2}, {2, 5, 3}, {3, 4, 5, 4, 2}},
      {"one_in_many_out", 2, {7}, {2, 3, 2, 2}, {4, 3, 3, 2}},
      {"many_in_one_out", 2, {2, 3, 2, 2}, {7}, {2, 3, 3, 4}},
      {"rank_1", 2, {3, 4}, {2, 5}, {1, 1, 1}},
      {"rank_0", 2, {3, 4}, {2, 5}, {0, 0, 0}},
      {"rank_0_low_rank", 1, {3}, {5}, {0}},
      {"rank_above_modes", 1, {2, 2}, {3, 2}, {7, 9, 5}},
      {"primes", 2, {7, 5}, {11, 3, 2}, {5, 4, 3, 2}},
      {"digits_of_1", 1, {1, 4, 1}, {1, 1, 3}, {2, 3, 2, 3, 2}},
      {"twelve_cores", 1, {2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 2, 2}, {2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2}},
  };
  return cases;
}

struct TableCase {
  std::string name;
  std::int64_t rows;
  Sizes row_digits, col_digits, ranks;  ///< the inner ranks
  Sizes indices;                        ///< sizes of the index tensor
  torch::ScalarType index_type = torch::kInt64;

  std::int64_t order() const { return row_digits.size(); }
};

inline const std::vector<TableCase>& table_cases() {
  static const std::vector<TableCase> cases = {
      {"plain", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {2, 5}},
      {"int32", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {2, 5}, torch::kInt32},
      {"batch_0", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {0, 5}},
      {"batch_1", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {1}},
      {"one_index", 20, {3, 4, 2}, {2, 3, 2}, {3, 4}, {}},
      {"one_core", 7, {7}, {5}, {}, {3, 4}},
      {"one_core_int32", 7, {7}, {5}, {}, {11}, torch::kInt32},
      {"two_cores", 11, {3, 4}, {5, 2}, {3}, {17}},
      {"low_rank", 13, {13, 1}, {1, 6}, {4}, {9}},
      {"low_rank_reversed", 13, {1, 13}, {6, 1}, {4}, {9}},
      {"reference_digits", 100, {4, 5, 3, 2}, {2, 1, 3, 2}, {4, 4, 4}, {64}},
      {"every_row_often", 6, {3, 2}, {2, 2}, {2}, {200}},
      {"rank_1", 20, {3, 4, 2}, {2, 3, 2}, {1, 1}, {2, 5}},
      {"rank_0", 20, {3, 4, 2}, {2, 3, 2}, {0, 0}, {2, 5}},
      {"rank_above_modes", 12, {3, 4}, {2, 1}, {11}, {2, 5}},
      {"primes", 450, {7, 5, 13}, {3, 2, 5}, {5, 3}, {50}},
      {"many_rows_few_tokens", 1000000, {100, 100, 100}, {2, 3, 2}, {3, 4}, {7}},
      {"rows_past_32_bits", 8000000000, {2000, 2000, 2000}, {2, 1, 2}, {2, 2}, {9}},
      {"five_cores", 250, {4, 2, 4, 2, 4}, {2, 1, 2, 3, 1}, {3, 2, 4, 2}, {300}},
  };
  return cases;
}

/// Names a case in test output.
template <class Case>
std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
template <class Case>
requires requires(const Case& c) { c.name; }
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

}  // namespace comera::test
