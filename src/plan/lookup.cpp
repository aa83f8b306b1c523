#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/plan/lookup.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace comera::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double product(const std::vector<std::int64_t>& values, int first, int last) {
  double result = 1;
  for (int k = first; k < last; ++k) result *= static_cast<double>(values[k]);
  return result;
}

void check_request(const LookupRequest& request) {
  const format::Shape& table = request.table;
  check(table.kind == format::Kind::ttm, "[plan_lookup] needs a TTM table, got {}", format::to_string(table));
  format::validate(table, "plan_lookup");
  check(!table.dead(), "[plan_lookup] {} is switched off: there is nothing to look up",
        format::to_string(table));
  check(table.order() <= 16, "[plan_lookup] at most 16 cores can be planned, got {}", table.order());
  check(request.rows >= 1, "[plan_lookup] rows looked up must be 1 or more, got {}", request.rows);
  check(request.goal != Goal::memory, "[plan_lookup] goals are multiply_adds, bytes and time");
  check(request.distinct_rows >= 0 && request.distinct_rows <= static_cast<double>(request.rows),
        "[plan_lookup] {} distinct rows among {}", request.distinct_rows, request.rows);
  const std::size_t places = (table.order() + 1) * (table.order() + 1);
  check(request.distinct_parts.empty() || request.distinct_parts.size() == places,
        "[plan_lookup] distinct_parts has {} entries, expected {}", request.distinct_parts.size(), places);
  for (const double parts : request.distinct_parts)
    check(std::isfinite(parts) && parts >= 0, "[plan_lookup] {} distinct parts", parts);
}

// What joins cost under a request.
class Joins {
 public:
  Joins(const LookupRequest& request, const Profile& profile)
      : request_(request),
        time_(profile, request.dtype),
        bytes_(request.dtype),
        element_(static_cast<double>(element_bytes(request.dtype))),
        order_(static_cast<int>(request.table.order())) {
    check_request(request);
    const auto rate = [&](const char* name) {
      const auto found = profile.rates.find(name);
      check(found != profile.rates.end(), "[plan_lookup] the profile has no rate \"{}\"", name);
      return found->second;
    };
    elementwise_ = rate("elementwise"), unique_ = rate("unique");
    rows_ = request.distinct_rows > 0 ? request.distinct_rows
                                      : expected_distinct(static_cast<double>(request.table.rows),
                                                          static_cast<double>(request.rows));
  }

  int order() const { return order_; }

  LookupPart core(int k) const {
    LookupPart part{
        k, k + 1, 0, true, product(request_.table.row_digits, k, k + 1), request_.table.col_digits[k]};
    return part;
  }

  LookupPart join(int first, int split, int last, bool full) const {
    const format::Shape& table = request_.table;
    LookupPart part{first, last, split, full};
    const double combinations = product(table.row_digits, first, last);
    part.entries = full ? combinations : distinct(first, last, combinations);
    part.columns = 1;
    for (int k = first; k < last; ++k) part.columns *= table.col_digits[k];
    const auto rank = [&](int k) { return static_cast<double>(table.ranks[k]); };
    const double rows = rank(first) * product(table.col_digits, first, split);
    const double cols = product(table.col_digits, split, last) * rank(last);
    part.multiply_adds = part.entries * rows * rank(split) * cols;
    part.bytes = element_ * part.entries * rows * cols;

    // Both sides full: one product. A side of one core: one product a digit. Else one an entry.
    Work work;
    work.m = rows, work.k = rank(split), work.n = cols;
    const double left = product(table.row_digits, first, split),
                 right = product(table.row_digits, split, last);
    if (full) {
      work.m *= left, work.n *= right;
    } else if (last == split + 1) {
      work.batch = std::min(right, part.entries);
      work.m *= part.entries / work.batch;
    } else if (split == first + 1) {
      work.batch = std::min(left, part.entries);
      work.n *= part.entries / work.batch;
    } else {
      work.batch = part.entries;
    }
    const double left_read = full ? left : part.entries, right_read = full ? right : part.entries;
    work.elements =
        left_read * rows * rank(split) + right_read * rank(split) * cols + part.entries * rows * cols;
    const int directions = request_.training ? 3 : 1;
    moved_ = directions * bytes_.cost(work);
    part.seconds = directions * time_.cost(work);
    if (!full) {
      // Finding what occurs; in the backward, adding what entries give to the same part.
      part.seconds += rows_ / unique_;
      if (request_.training)
        part.seconds += element_ * part.entries * rank(split) * (rows + cols) / elementwise_;
    }
    return part;
  }

  /// Bytes of the last join.
  double moved() const { return moved_; }

  double cost(const LookupPart& part) const {
    if (request_.goal == Goal::time) return part.seconds;
    return request_.goal == Goal::bytes ? moved_ : (request_.training ? 3 : 1) * part.multiply_adds;
  }

 private:
  double distinct(int first, int last, double combinations) const {
    if (first == 0 && last == order_) return rows_;
    const std::size_t place = first * (order_ + 1) + last;
    const double given = request_.distinct_parts.empty() ? 0 : request_.distinct_parts[place];
    return std::min({combinations, rows_, given > 0 ? given : expected_distinct(combinations, rows_)});
  }

  const LookupRequest& request_;
  PredictedTime time_;
  BytesMoved bytes_;
  double element_, elementwise_ = 0, unique_ = 0, rows_ = 0;
  int order_;
  mutable double moved_ = 0;
};

struct Best {
  double cost = kInfinite;
  int split = 0;
  bool left_full = false, right_full = false;
};

// Best way to have the parts [first, last), full or distinct.
class Search {
 public:
  Search(const LookupRequest& request, const Profile& profile)
      : request_(request),
        joins_(request, profile),
        order_(joins_.order()),
        best_((order_ + 1) * (order_ + 1) * 2) {
    for (int k = 0; k < order_; ++k) at(k, k + 1, true).cost = 0;
    for (int length = 2; length <= order_; ++length)
      for (int first = 0; first + length <= order_; ++first)
        for (const bool full : {true, false}) fill(first, first + length, full);
  }

  LookupPlan plan() {
    LookupPlan plan;
    collect(0, order_, order_ == 1, &plan);
    return plan;
  }

 private:
  Best& at(int first, int last, bool full) { return best_[(first * (order_ + 1) + last) * 2 + full]; }

  bool allowed(int first, int split, int last) const {
    if (!request_.chains_only || (first == 0 && last == order_)) return true;
    return (first == 0 && split == last - 1) || (last == order_ && split == first + 1);
  }

  void fill(int first, int last, bool full) {
    if (full && first == 0 && last == order_) return;  // rows are never all made
    Best& best = at(first, last, full);
    for (int split = first + 1; split < last; ++split) {
      if (!allowed(first, split, last)) continue;
      const double join = joins_.cost(joins_.join(first, split, last, full));
      for (const bool left : {true, false})
        for (const bool right : {true, false}) {
          if (full && !(left && right)) continue;
          const double cost = join + at(first, split, left).cost + at(split, last, right).cost;
          if (cost < best.cost) best = {cost, split, left, right};
        }
    }
  }

  void collect(int first, int last, bool full, LookupPlan* plan) {
    if (last == first + 1) {
      plan->parts.push_back(joins_.core(first));
      return;
    }
    const Best best = at(first, last, full);
    collect(first, best.split, best.left_full, plan);
    collect(best.split, last, best.right_full, plan);
    const LookupPart part = joins_.join(first, best.split, last, full);
    plan->parts.push_back(part);
    plan->multiply_adds += (request_.training ? 3 : 1) * part.multiply_adds;
    plan->bytes_moved += joins_.moved();
    plan->table_bytes += part.bytes;
    plan->predicted_seconds += part.seconds;
  }

  const LookupRequest& request_;
  Joins joins_;
  int order_;
  std::vector<Best> best_;
};

}  // namespace

double expected_distinct(double combinations, double draws) {
  if (combinations <= 1) return std::min(1.0, draws);
  return -combinations * std::expm1(draws * std::log1p(-1 / combinations));
}

LookupPlan plan_lookup(const LookupRequest& request, const Profile& profile) {
  return Search(request, profile).plan();
}

LookupPart lookup_part(const LookupRequest& request, const Profile& profile, int first, int split, int last,
                       bool full) {
  const Joins joins(request, profile);
  check(first >= 0 && first < split && split < last && last <= joins.order(),
        "[plan_lookup] no part [{}, {}) split at {}", first, last, split);
  return joins.join(first, split, last, full);
}

std::string to_string(const LookupPlan& plan) {
  std::string text;
  for (const LookupPart& part : plan.parts) {
    if (part.split == 0) continue;
    text += fmt::format(
        "digits {}-{} from {}-{} and {}-{}: {} {} entries of {} columns, {} multiply-adds, {}, {:.1f} us\n",
        part.first + 1, part.last, part.first + 1, part.split, part.split + 1, part.last,
        part.full ? "all" : "distinct", format_count(part.entries), part.columns,
        format_count(part.multiply_adds), format_bytes(part.bytes), part.seconds * 1e6);
  }
  return text + fmt::format("multiply-adds {}, moved {}, tables {}, predicted {:.1f} us\n",
                            format_count(plan.multiply_adds), format_bytes(plan.bytes_moved),
                            format_bytes(plan.table_bytes), plan.predicted_seconds * 1e6);
}

Json to_json(const LookupPlan& plan) {
  Json parts = Json::array();
  for (const LookupPart& part : plan.parts)
    parts.push_back({{"first", part.first},
                     {"last", part.last},
                     {"split", part.split},
                     {"full", part.full},
                     {"entries", part.entries},
                     {"columns", part.columns},
                     {"multiply_adds", part.multiply_adds},
                     {"bytes", part.bytes},
                     {"seconds", part.seconds}});
  return {{"split", plan.split()},
          {"total_multiply_adds", plan.multiply_adds},
          {"bytes_moved", plan.bytes_moved},
          {"table_bytes", plan.table_bytes},
          {"predicted_seconds", plan.predicted_seconds},
          {"parts", parts}};
}

}  // namespace comera::plan
