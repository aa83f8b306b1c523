#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/format/digits.h>
#include <comera/nn/layer_format.h>
#include <comera/plan/advisor.h>

#include <algorithm>

namespace comera::nn {
namespace {

std::vector<std::int64_t> side(std::int64_t size, const std::vector<std::int64_t>& given, std::int64_t count,
                               bool ascending, bool may_pad, std::string& warnings) {
  if (!given.empty()) return given;
  format::Digits chosen = may_pad ? format::padded_digits(size, count) : format::balanced_digits(size, count);
  if (!chosen.warning.empty()) warnings += (warnings.empty() ? "" : "; ") + chosen.warning;
  if (ascending) return {chosen.digits.rbegin(), chosen.digits.rend()};
  return chosen.digits;
}

format::Shape finish(format::Shape shape, const std::string& name, const LayerFormat& format,
                     const std::string& warnings, std::string* warning) {
  check(!format.ranks.empty(), "[{}] a compressed layer needs ranks, for example ranks = 16", name);
  shape.ranks = format::expand_ranks(format.ranks, shape, name);
  format::validate(shape, name);
  if (warning) *warning = warnings;
  return shape;
}

// Of what the advisor proposes: the largest middle rank, then the fastest. By the figures of a usual machine,
// so that a recipe is the same model everywhere.
format::Shape advised_shape(const std::string& name, std::int64_t in, std::int64_t out,
                            const LayerFormat& format, std::string* warning) {
  check(format.kind == LayerKind::compressed && format.row_digits.empty() && format.col_digits.empty() &&
            format.ranks.empty() && format.digits == 0,
        "[{}] digits = \"auto\" chooses digits and ranks of a compressed layer itself; leave out in, out and "
        "ranks",
        name);
  plan::AdvisorRequest request{in, out};
  request.parameters = format.parameters;
  const auto suggestions = plan::advise(request, plan::default_profile());
  const auto best = std::max_element(
      suggestions.begin(), suggestions.end(), [](const plan::Suggestion& a, const plan::Suggestion& b) {
        return a.middle_rank != b.middle_rank ? a.middle_rank < b.middle_rank
                                              : a.predicted_seconds > b.predicted_seconds;
      });
  if (warning) *warning = best->warning;
  return best->shape;
}

}  // namespace

LayerFormat LayerFormats::find(const std::string& layer) {
  layers_.push_back(layer);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!matches_pattern(rules_[i].pattern, layer)) continue;
    used_[i] = true;
    return rules_[i].format;
  }
  return {};
}

void LayerFormats::check_all_used() const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (used_[i]) continue;
    const std::string& pattern = rules_[i].pattern;
    bool matches_some = false;
    for (const auto& layer : layers_) matches_some |= matches_pattern(pattern, layer);
    if (matches_some)
      fail("[layers] rule '{}' is never used: an earlier rule takes all its layers; put it first", pattern);
    const std::string near = nearest_name(pattern, layers_);
    fail("[layers] no layer matches '{}'; {}", pattern,
         near.empty() ? fmt::format("the layers are {}", fmt::join(layers_, ", "))
                      : "did you mean '" + near + "'?");
  }
}

format::Shape linear_shape(const std::string& name, std::int64_t in, std::int64_t out,
                           const LayerFormat& format, std::string* warning) {
  if (format.parameters > 0) return advised_shape(name, in, out, format, warning);
  format::Shape shape{format::Kind::tt, {in}, {out}, {}, in, out};
  std::string warnings;
  if (format.kind == LayerKind::compressed) {
    const auto count = [&](std::int64_t size) {
      return format.digits ? format.digits : format::default_digit_count(size);
    };
    // Large digits at the outer ends, where the ranks are small.
    shape.row_digits = side(in, format.row_digits, count(in), false, false, warnings);
    shape.col_digits = side(out, format.col_digits, count(out), true, false, warnings);
  }
  return finish(std::move(shape), name, format, warnings, warning);
}

format::Shape table_shape(const std::string& name, std::int64_t rows, std::int64_t cols,
                          const LayerFormat& format, std::string* warning) {
  check(format.parameters == 0,
        "[{}] digits = \"auto\" is for linear layers; give a table digits = 3 or so, and ranks", name);
  format::Shape shape{format::Kind::ttm, {rows, 1}, {1, cols}, {}, rows, cols};
  std::string warnings;
  if (format.kind == LayerKind::compressed) {
    const std::int64_t count = format.digits ? format.digits
                               : !format.row_digits.empty()
                                   ? static_cast<std::int64_t>(format.row_digits.size())
                                   : format::default_digit_count(rows);
    shape.row_digits = side(rows, format.row_digits, count, false, true, warnings);
    shape.col_digits = side(cols, format.col_digits, count, true, false, warnings);
  }
  return finish(std::move(shape), name, format, warnings, warning);
}

}  // namespace comera::nn
