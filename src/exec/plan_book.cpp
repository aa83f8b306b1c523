#include <comera/base/error.h>
#include <comera/exec/plan_book.h>

#include <algorithm>
#include <chrono>

namespace comera::exec {
namespace {

// A plan has to promise this much to be run: prediction is not exact, and factors of all layers built at once
// cost no planning.
constexpr double kMargin = 0.9;
constexpr std::size_t kMostEntries = 10'000;

// Padding is the caller's: a plan knows whole digits only.
format::Shape without_padding(format::Shape shape) {
  shape.rows = shape.cols = 1;
  for (const std::int64_t digit : shape.row_digits) shape.rows *= digit;
  for (const std::int64_t digit : shape.col_digits) shape.cols *= digit;
  return shape;
}

plan::Request request_of(const LayerUse& use) {
  plan::Request request{{without_padding(use.shape)}, plan::token_bucket(use.rows)};
  request.dtype = use.dtype;
  return request;
}

plan::Plan two_groups_plan(const plan::Request& request, const plan::Profile& profile) {
  const format::Shape& shape = request.layers.front();
  return plan::plan_tree(
      request, plan::two_group_tree(static_cast<int>(shape.order()), static_cast<int>(shape.split())),
      profile);
}

// Scales are folded into cores by operations of their own, forward and backward.
double folding_seconds(const format::Shape& shape, const plan::Profile& profile) {
  return 3 * static_cast<double>(shape.bonds()) * profile.start_seconds;
}

}  // namespace

double two_groups_seconds(const LayerUse& use, const plan::Profile& profile) {
  const plan::Plan plan = two_groups_plan(request_of(use), profile);
  const plan::PredictedTime time(profile, use.dtype);
  const auto element = static_cast<double>(plan::element_bytes(use.dtype));
  double seconds = 0;
  for (const plan::Step& step : plan.steps) {
    // Index 0 is the tokens.
    if ((step.batch | step.m | step.k | step.n) & 1) {
      seconds += step.seconds;
      continue;
    }
    plan::Work work;
    work.batch = static_cast<double>(step.product.batch * use.layers);
    work.m = static_cast<double>(step.product.m);
    work.k = static_cast<double>(step.product.k);
    work.n = static_cast<double>(step.product.n);
    work.elements = static_cast<double>(step.bytes) / element * static_cast<double>(use.layers);
    seconds += time.cost(work) / static_cast<double>(use.layers * use.forwards);
  }
  return seconds;
}

SharedPlan PlanBook::find(const LayerUse& use) {
  const plan::Request request = request_of(use);
  const Key key{plan::hash(request), use.layers, use.forwards};
  if (const auto known = entries_.find(key); known != entries_.end())
    return known->second.two_groups ? nullptr : known->second.plan;

  const auto start = std::chrono::steady_clock::now();
  plan::Plan best = plan::make_plan(request, profile_);
  const double planned = best.predicted_seconds + folding_seconds(request.layers.front(), profile_),
               two_groups = two_groups_seconds(use, profile_);
  Entry entry;
  entry.two_groups = planned >= kMargin * two_groups;
  if (entry.two_groups) best = two_groups_plan(request, profile_);
  news_.push_back(fmt::format(
      "planned {}, {} tokens: {} (predicted {:.0f} us, {} {:.0f} us)", format::to_string(use.shape),
      request.tokens, entry.two_groups ? "two groups" : plan::to_string(*best.tree, best.network),
      1e6 * std::min(planned, two_groups), entry.two_groups ? "best other" : "two groups",
      1e6 * std::max(planned, two_groups)));
  entry.plan = std::make_shared<const plan::Plan>(std::move(best));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Entry& kept = entries_.emplace(key, std::move(entry)).first->second;
  return kept.two_groups ? nullptr : kept.plan;
}

void PlanBook::keep_only(const std::vector<format::Shape>& shapes) {
  std::vector<format::Shape> whole;
  for (const format::Shape& shape : shapes)
    if (shape.kind == format::Kind::tt) whole.push_back(without_padding(shape));
  std::erase_if(entries_, [&](const auto& entry) {
    const format::Shape& shape = entry.second.plan->request.layers.front();
    return std::find(whole.begin(), whole.end(), shape) == whole.end();
  });
}

Json PlanBook::save() const {
  Json json = Json::array();
  for (const auto& [key, entry] : entries_)
    json.push_back({{"layers", std::get<1>(key)},
                    {"forwards", std::get<2>(key)},
                    {"two_groups", entry.two_groups},
                    {"plan", plan::to_json(*entry.plan)}});
  return {{"profile", plan::to_json(profile_)}, {"plans", std::move(json)}};
}

void PlanBook::load(const Json& json, const std::string& source) {
  check(json.is_object() && json.contains("profile") && json.contains("plans") && json["plans"].is_array() &&
            json["plans"].size() <= kMostEntries,
        "{}: not a book of plans", source);
  plan::Profile profile = plan::profile_from_json(json["profile"], source);
  std::map<Key, Entry> entries;
  for (const Json& one : json["plans"]) {
    check(one.is_object() && one.contains("layers") && one["layers"].is_number_integer() &&
              one.contains("forwards") && one["forwards"].is_number_integer() && one.contains("two_groups") &&
              one["two_groups"].is_boolean() && one.contains("plan"),
          "{}: not a plan in use", source);
    Entry entry;
    entry.two_groups = one["two_groups"].get<bool>();
    entry.plan = std::make_shared<const plan::Plan>(plan::plan_from_json(one["plan"], source));
    check(entry.plan->request.layers.size() == 1, "{}: a plan in use is of one layer", source);
    const Key key{plan::hash(entry.plan->request), one["layers"].get<std::int64_t>(),
                  one["forwards"].get<std::int64_t>()};
    entries[key] = std::move(entry);
  }
  profile_ = std::move(profile);
  entries_ = std::move(entries);
}

}  // namespace comera::exec
