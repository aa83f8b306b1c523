#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/format/shape.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace comera::format {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// Products that would pass 2^63 saturate; validate() refuses them.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kLargest : product;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kLargest : sum;
}
std::int64_t product(const std::vector<std::int64_t>& digits) {
  return std::accumulate(digits.begin(), digits.end(), std::int64_t{1}, times);
}

std::string join(const std::vector<std::int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

}  // namespace

std::int64_t Shape::order() const {
  return kind == Kind::tt ? row_digits.size() + col_digits.size() : row_digits.size();
}

std::int64_t Shape::mode(std::int64_t core) const {
  if (kind == Kind::ttm) return times(row_digits[core], col_digits[core]);
  return core < split() ? row_digits[core] : col_digits[core - split()];
}

std::vector<std::int64_t> Shape::core_shape(std::int64_t core) const {
  if (kind == Kind::ttm) return {ranks[core], row_digits[core], col_digits[core], ranks[core + 1]};
  return {ranks[core], mode(core), ranks[core + 1]};
}

std::int64_t Shape::core_parameters() const {
  std::int64_t total = 0;
  for (std::int64_t k = 0; k < order(); ++k)
    total = plus(total, times(times(ranks[k], mode(k)), ranks[k + 1]));
  return total;
}

std::int64_t Shape::scale_parameters() const {
  std::int64_t total = 0;
  for (std::int64_t k = 0; k < bonds(); ++k) total = plus(total, rank(k));
  return total;
}

std::int64_t Shape::minimum_parameters() const {
  std::int64_t total = bonds();
  for (std::int64_t k = 0; k < order(); ++k) total = plus(total, mode(k));
  return total;
}

std::int64_t Shape::rank_cost(std::int64_t bond) const {
  return mode(bond) * ranks[bond] + mode(bond + 1) * ranks[bond + 2] + 1;
}

std::int64_t Shape::admissible_rank(std::int64_t bond) const {
  std::int64_t left = 1, right = 1;
  for (std::int64_t k = 0; k <= bond; ++k) left = times(left, mode(k));
  for (std::int64_t k = bond + 1; k < order(); ++k) right = times(right, mode(k));
  return std::min(left, right);
}

void validate(const Shape& shape, const std::string& where) {
  check(!shape.row_digits.empty() && !shape.col_digits.empty(), "[{}] needs at least one digit on each side",
        where);
  check(shape.kind == Kind::tt || shape.row_digits.size() == shape.col_digits.size(),
        "[{}] a TTM table needs as many column digits as row digits, got {} and {}", where,
        join(shape.row_digits), join(shape.col_digits));
  for (const auto* digits : {&shape.row_digits, &shape.col_digits})
    for (const std::int64_t digit : *digits)
      check(digit >= 1, "[{}] digits must be 1 or more, got {}", where, join(*digits));
  const std::int64_t row_product = product(shape.row_digits), col_product = product(shape.col_digits);
  check(times(row_product, col_product) < kLargest, "[{}] digits {} x {} multiply past 2^63", where,
        join(shape.row_digits), join(shape.col_digits));
  check(shape.rows >= 1 && shape.rows <= row_product, "[{}] digits {} hold {} rows, {} are needed", where,
        join(shape.row_digits), row_product, shape.rows);
  check(shape.cols >= 1 && shape.cols <= col_product, "[{}] digits {} hold {} columns, {} are needed", where,
        join(shape.col_digits), col_product, shape.cols);
  check(static_cast<std::int64_t>(shape.ranks.size()) == shape.order() + 1,
        "[{}] {} cores need {} ranks with the borders, got {}", where, shape.order(), shape.order() + 1,
        join(shape.ranks));
  check(shape.ranks.front() == 1 && shape.ranks.back() == 1, "[{}] the border ranks must be 1, got {}", where,
        join(shape.ranks));
  const bool dead = shape.dead();
  for (std::int64_t k = 0; k < shape.bonds(); ++k)
    check(dead ? shape.rank(k) == 0 : shape.rank(k) >= 1,
          "[{}] inner ranks must be 1 or more, or all 0 for a weight that is switched off, got {}", where,
          join(shape.ranks));
  check(shape.parameters() < kLargest, "[{}] ranks {} make more than 2^63 parameters", where,
        join(shape.ranks));
}

std::string to_string(const Shape& shape) {
  return fmt::format("{} {} x {} ranks {}", shape.kind == Kind::tt ? "TT" : "TTM", join(shape.row_digits),
                     join(shape.col_digits), join(shape.ranks));
}

std::uint64_t hash(const Shape& shape) {
  std::uint64_t state = mix64(static_cast<std::uint64_t>(shape.kind));
  const auto add = [&](std::int64_t value) { state = mix64(state ^ static_cast<std::uint64_t>(value)); };
  for (const auto* list : {&shape.row_digits, &shape.col_digits, &shape.ranks}) {
    add(list->size());
    for (const std::int64_t value : *list) add(value);
  }
  add(shape.rows), add(shape.cols);
  return state;
}

std::vector<std::int64_t> expand_ranks(const std::vector<std::int64_t>& given, const Shape& digits_only,
                                       const std::string& where) {
  const std::int64_t cores = digits_only.order(), count = given.size();
  std::vector<std::int64_t> ranks(cores + 1, 1);
  if (count == cores + 1) {
    ranks = given;
  } else if (count == cores - 1) {
    std::copy(given.begin(), given.end(), ranks.begin() + 1);
  } else if (count == 1) {
    for (std::int64_t k = 0; k < cores - 1; ++k)
      ranks[k + 1] = std::min(given[0], digits_only.admissible_rank(k));
  } else {
    const std::vector<std::int64_t> inner(cores - 1, 8);
    fail(
        "[{}] {} cores take one rank for all bonds (8), {} inner ranks ({}) or {} with the borders (1,{},1), "
        "got {}",
        where, cores, cores - 1, join(inner), cores + 1, join(inner), count == 0 ? "none" : join(given));
  }
  for (const std::int64_t rank : ranks)
    check(rank >= 0, "[{}] ranks cannot be negative, got {}", where, join(given));
  return ranks;
}

Shape tt(std::vector<std::int64_t> in_digits, std::vector<std::int64_t> out_digits,
         std::vector<std::int64_t> ranks) {
  Shape shape{Kind::tt, std::move(in_digits), std::move(out_digits), {}, 0, 0};
  shape.rows = product(shape.row_digits);
  shape.cols = product(shape.col_digits);
  shape.ranks = expand_ranks(ranks, shape, "tt");
  validate(shape, "tt");
  return shape;
}

Shape ttm(std::int64_t rows, std::vector<std::int64_t> row_digits, std::vector<std::int64_t> col_digits,
          std::vector<std::int64_t> ranks) {
  Shape shape{Kind::ttm, std::move(row_digits), std::move(col_digits), {}, rows, 0};
  shape.cols = product(shape.col_digits);
  check(shape.row_digits.size() == shape.col_digits.size(),
        "[ttm] a TTM table needs as many column digits as row digits, got {} and {}", join(shape.row_digits),
        join(shape.col_digits));
  shape.ranks = expand_ranks(ranks, shape, "ttm");
  validate(shape, "ttm");
  return shape;
}

}  // namespace comera::format
