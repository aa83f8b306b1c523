#include <comera/base/error.h>
#include <comera/format/digits.h>
#include <comera/plan/advisor.h>
#include <comera/plan/search.h>

#include <algorithm>
#include <limits>

namespace comera::plan {
namespace {

using List = std::vector<std::int64_t>;

// Splits of one side; a digit of 1 beside others buys nothing.
std::vector<format::Digits> splits(std::int64_t size, int most) {
  std::vector<format::Digits> result;
  for (int count = 1; count <= most; ++count) {
    format::Digits digits = format::balanced_digits(size, count);
    if (count > 1 && digits.digits.back() == 1) break;
    result.push_back(std::move(digits));
  }
  return result;
}

// 1, 2, 3, 4, 6, 8, 12, .. up to `largest`, and `largest`.
List ranks_up_to(std::int64_t largest) {
  List ranks;
  for (std::int64_t rank = 1; rank < largest; rank = token_bucket(rank + 1)) ranks.push_back(rank);
  ranks.push_back(largest);
  return ranks;
}

double predicted(const format::Shape& shape, const AdvisorRequest& request, const Objective& time) {
  const Network network = layer_network({shape}, request.tokens, Results::all);
  return TreeSearch(network, time).cheapest().cost;
}

// Whether b makes a superfluous.
bool beaten(const Suggestion& a, const Suggestion& b) {
  const bool no_worse = b.parameters <= a.parameters && b.predicted_seconds <= a.predicted_seconds &&
                        b.middle_rank >= a.middle_rank;
  return no_worse && (b.parameters < a.parameters || b.predicted_seconds < a.predicted_seconds ||
                      b.middle_rank > a.middle_rank);
}

}  // namespace

std::vector<Suggestion> advise(const AdvisorRequest& request, const Profile& profile) {
  check(request.in >= 1 && request.out >= 1 && request.tokens >= 1,
        "[advisor] widths and tokens must be 1 or more, got {} -> {}, {} tokens", request.in, request.out,
        request.tokens);
  check(request.parameters > 0 || request.seconds > 0,
        "[advisor] needs a budget of parameters or of seconds");
  check(request.most_digits >= 1 && request.most_digits <= 6, "[advisor] 1 to 6 digits a side, got {}",
        request.most_digits);
  const PredictedTime time(profile, request.dtype);
  std::vector<Suggestion> found;
  std::int64_t least_parameters = std::numeric_limits<std::int64_t>::max();
  double least_seconds = std::numeric_limits<double>::infinity();
  for (const format::Digits& in : splits(request.in, request.most_digits))
    for (const format::Digits& out : splits(request.out, request.most_digits)) {
      // Largest digits outside: the bonds beside them are then as large as they can be.
      const List out_digits(out.digits.rbegin(), out.digits.rend());
      const auto shape_of = [&](std::int64_t rank) { return format::tt(in.digits, out_digits, {rank}); };
      least_parameters = std::min(least_parameters, shape_of(1).parameters());
      std::int64_t largest = std::min(request.in, request.out);
      if (request.parameters > 0) {
        std::int64_t below = 0;  // fits, or 0
        for (std::int64_t above = largest + 1; above - below > 1;) {
          const std::int64_t middle = below + (above - below) / 2;
          (shape_of(middle).parameters() <= request.parameters ? below : above) = middle;
        }
        largest = below;
      }
      if (largest == 0) continue;
      for (const std::int64_t rank : ranks_up_to(largest)) {
        Suggestion one{shape_of(rank), 0, 0, rank, in.warning.empty() ? out.warning : in.warning};
        one.parameters = one.shape.parameters();
        one.predicted_seconds = predicted(one.shape, request, time);
        least_seconds = std::min(least_seconds, one.predicted_seconds);
        if (request.seconds > 0 && one.predicted_seconds > request.seconds) continue;
        found.push_back(std::move(one));
      }
    }
  if (found.empty() && request.parameters > 0 && least_parameters > request.parameters)
    fail("[advisor] no shape of {} x {} has {} parameters or fewer; the smallest has {}", request.in,
         request.out, request.parameters, least_parameters);
  check(!found.empty(),
        "[advisor] no shape of {} x {} is predicted to take {} s or less; the fastest takes {} s", request.in,
        request.out, request.seconds, least_seconds);

  std::vector<Suggestion> result;
  for (const Suggestion& one : found)
    if (std::none_of(found.begin(), found.end(), [&](const Suggestion& other) { return beaten(one, other); }))
      result.push_back(one);
  std::stable_sort(result.begin(), result.end(),
                   [](const Suggestion& a, const Suggestion& b) { return a.parameters < b.parameters; });
  return result;
}

std::string to_string(const std::vector<Suggestion>& suggestions) {
  std::string text;
  for (const Suggestion& one : suggestions)
    text += fmt::format("{:>12} parameters  {:>10.1f} us  middle rank {:>4}  {}{}{}\n", one.parameters,
                        one.predicted_seconds * 1e6, one.middle_rank, format::to_string(one.shape),
                        one.warning.empty() ? "" : "  ", one.warning);
  return text;
}

Json to_json(const std::vector<Suggestion>& suggestions) {
  Json json = Json::array();
  for (const Suggestion& one : suggestions)
    json.push_back({{"in", one.shape.row_digits},
                    {"out", one.shape.col_digits},
                    {"ranks", one.shape.ranks},
                    {"parameters", one.parameters},
                    {"predicted_seconds", one.predicted_seconds},
                    {"middle_rank", one.middle_rank},
                    {"warning", one.warning}});
  return json;
}

}  // namespace comera::plan
