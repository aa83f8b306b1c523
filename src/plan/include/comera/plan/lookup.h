// Plans for looking rows up in a TTM table: which ranges of digits get tables of partial products, whether
// these are full or hold only what occurs, and in which order a row is put together.
#pragma once

#include <comera/format/shape.h>
#include <comera/plan/cost.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::plan {

struct LookupRequest {
  format::Shape table;       ///< TTM
  std::int64_t rows = 1;     ///< looked up
  double distinct_rows = 0;  ///< 0 = expected for uniform draws of `rows`
  /// Distinct combinations of the digits [first, last) among the distinct rows, at first * (K + 1) + last;
  /// empty = expected for uniform draws. Entries of 0 likewise.
  std::vector<double> distinct_parts = {};
  bool training = true;
  bool chains_only = false;  ///< only one prefix and one suffix, each extended core by core
  DType dtype = DType::float32;
  Goal goal = Goal::time;  ///< multiply_adds, bytes or time
};

/// Products of the cores [first, last): one entry for every combination (full) or for those that occur.
struct LookupPart {
  int first = 0, last = 0;
  int split = 0;  ///< joined from the parts [first, split) and [split, last); 0 for a single core
  bool full = false;
  double entries = 0;
  std::int64_t columns = 0;  ///< product of the column digits: an entry is [r_first, columns, r_last]
  double multiply_adds = 0;  ///< forward
  double bytes = 0;          ///< of the entries
  double seconds = 0;        ///< forward and, in training, backward
};

struct LookupPlan {
  std::vector<LookupPart> parts;  ///< every part after what it is joined from; the last is the rows
  double multiply_adds = 0;       ///< forward and, in training, both gradients of each join
  double bytes_moved = 0;
  double table_bytes = 0;  ///< all parts together
  double predicted_seconds = 0;

  int split() const { return parts.back().split; }  ///< digits of the prefix
};

/// Expected distinct values among `draws` uniform draws from `combinations`.
double expected_distinct(double combinations, double draws);

/// The best by dynamic programming over intervals, exact over every order and every choice of full or
/// distinct. Throws Error for a TT shape, a dead weight, rows < 1 or more distinct rows than rows.
LookupPlan plan_lookup(const LookupRequest& request, const Profile& profile);

/// Cost of one join under the request: for tests and figures.
LookupPart lookup_part(const LookupRequest& request, const Profile& profile, int first, int split, int last,
                       bool full);

std::string to_string(const LookupPlan& plan);
Json to_json(const LookupPlan& plan);

}  // namespace comera::plan
