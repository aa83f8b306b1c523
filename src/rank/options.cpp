#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/rank/options.h>

#include <algorithm>
#include <cmath>

namespace comera::rank {

Rule parse_rule(const std::string& name) {
  if (name == "count_prices") return Rule::count_prices;
  if (name == "published") return Rule::published;
  const std::string nearest = nearest_name(name, {"count_prices", "published"});
  fail("[rank] unknown rule '{}'; {}", name,
       nearest.empty() ? "use count_prices or published" : "did you mean " + nearest + "?");
}

double scale_learning_rate(std::int64_t early_steps) {
  return std::max(1e-3, 4.0 / static_cast<double>(std::max<std::int64_t>(early_steps, 1)));
}

void validate(const Options& options) {
  check(!options.gamma || (std::isfinite(*options.gamma) && *options.gamma >= 0),
        "[rank] gamma is in units of the loss and cannot be negative, got {}", options.gamma.value_or(0));
  check(!(options.target_parameters && options.target_bytes),
        "[rank] target_parameters and target_bytes are both set; give one of them");
  check(!options.target_loss || std::isfinite(*options.target_loss),
        "[rank] target_loss must be finite, got {}", options.target_loss.value_or(0));
  check(0 <= options.price_from && options.price_from <= options.price_full &&
            options.price_full <= options.early_end && options.early_end <= 1,
        "[rank] stages must be in order: 0 <= price_from ({}) <= price_full ({}) <= early_end ({}) <= 1",
        options.price_from, options.price_full, options.early_end);
  check(options.cut_every >= 1 && options.zero_steps >= 1,
        "[rank] cut_every and zero_steps must be 1 or more, got {} and {}", options.cut_every,
        options.zero_steps);
}

}  // namespace comera::rank
