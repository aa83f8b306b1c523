#include <comera/base/error.h>
#include <comera/base/text.h>
#include <comera/plan/region.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace comera::plan {
namespace {

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t total = 0;
  check(!__builtin_add_overflow(a, b, &total), "[plan] the figures of this region pass 2^63");
  return total;
}

double rate(const Profile& profile, const char* name) {
  const auto found = profile.rates.find(name);
  check(found != profile.rates.end(), "[plan] the profile has no rate \"{}\"", name);
  return found->second;
}

std::int64_t gradient_bytes(const Plan& plan, bool input) {
  std::int64_t bytes = 0;
  for (int leaf = 0; leaf + 1 < plan.network.size(); ++leaf)
    if (plan.results[leaf] >= 0 && (leaf == 0) == input) bytes += plan.tensors[plan.results[leaf]].bytes;
  return bytes;
}

std::int64_t output_bytes(const Plan& plan) { return plan.tensors[plan.results.back()].bytes; }

RegionPlan gathered(std::string name, std::vector<Plan> plans) {
  RegionPlan region;
  region.name = std::move(name);
  for (const Plan& plan : plans) {
    region.total_multiply_adds = sum(region.total_multiply_adds, plan.total_multiply_adds);
    region.bytes_moved = sum(region.bytes_moved, plan.bytes_moved);
    region.saved_bytes = sum(region.saved_bytes, plan.saved_bytes);
    region.predicted_seconds += plan.predicted_seconds;
    region.peak_bytes = std::max(region.peak_bytes, plan.peak_bytes);
  }
  region.plans = std::move(plans);
  return region;
}

void add_passes(RegionPlan* region, std::int64_t bytes, const Profile& profile) {
  region->bytes_moved = sum(region->bytes_moved, bytes);
  region->predicted_seconds += static_cast<double>(bytes) / rate(profile, "elementwise");
}

// Each layer alone; the input gradients are added up.
RegionPlan compose_shared(std::vector<Plan> plans, const Profile& profile) {
  RegionPlan region = gathered("composed", std::move(plans));
  std::int64_t live = 0, peak = 0;
  for (const Plan& plan : region.plans) {
    peak = std::max(peak, live + plan.forward_peak_bytes);
    live += plan.saved_bytes;
  }
  std::int64_t gradients = 0;
  for (std::size_t i = region.plans.size(); i-- > 0;) {
    const Plan& plan = region.plans[i];
    const std::int64_t input = gradient_bytes(plan, true);
    live -= plan.saved_bytes;
    const bool more = i + 1 < region.plans.size();
    peak = std::max(peak, live + gradients + (more ? input : 0) + plan.backward_peak_bytes);
    gradients += gradient_bytes(plan, false);
    if (more) add_passes(&region, 3 * input, profile);
  }
  region.peak_bytes = peak;
  return region;
}

// The wide activation and its image under the function are stored, read and written as a whole.
RegionPlan compose_feed_forward(std::vector<Plan> plans, const Profile& profile) {
  RegionPlan region = gathered("composed", std::move(plans));
  const Plan &up = region.plans[0], &down = region.plans[1];
  const std::int64_t wide = output_bytes(up), down_gradients = gradient_bytes(down, false);
  const bool training = up.request.results != Results::forward;
  add_passes(&region, (training ? 5 : 2) * wide, profile);
  std::int64_t peak = std::max(up.forward_peak_bytes, up.saved_bytes + 2 * wide);
  if (!training) {
    region.peak_bytes = std::max(peak, wide + down.forward_peak_bytes);
    return region;
  }
  region.saved_bytes = sum(region.saved_bytes, 2 * wide);
  peak =
      std::max({peak, up.saved_bytes + 2 * wide + std::max(down.forward_peak_bytes, down.backward_peak_bytes),
                up.saved_bytes + 3 * wide + down_gradients, down_gradients + wide + up.backward_peak_bytes});
  region.peak_bytes = peak;
  return region;
}

// By blocks of rows: what touches the wide activation reads and writes cache, and its forward runs twice.
RegionPlan fuse_feed_forward(std::vector<Plan> plans, const Profile& profile) {
  RegionPlan region = gathered("fused", std::move(plans));
  region.row_blocks = true;
  const Plan &up = region.plans[0], &down = region.plans[1];
  const PredictedTime time(profile, up.request.dtype);
  const bool training = up.request.results != Results::forward;
  const std::int64_t element = element_bytes(up.request.dtype), wide = output_bytes(up);
  for (const Plan& plan : region.plans) {
    const bool first = &plan == &up;
    const int outside = first ? plan.results.back() : plan.results.front();  // Y of up, dX of down
    const int given = first ? plan.network.root() : 0;                       // dY of up, X of down
    for (const Step& step : plan.steps) {
      const bool touches = step.left == given || step.right == given || step.result == outside;
      if (!touches) continue;
      Work work{static_cast<double>(step.product.batch), static_cast<double>(step.product.m),
                static_cast<double>(step.product.k), static_cast<double>(step.product.n)};
      work.elements = static_cast<double>((step.bytes - wide) / element);
      const double seconds = time.cost(work);
      region.predicted_seconds -= step.seconds - std::min(seconds, step.seconds);
      region.bytes_moved -= wide;
      if (first && training && step.result == outside) {
        region.predicted_seconds += seconds;
        region.total_multiply_adds = sum(region.total_multiply_adds, step.multiply_adds);
      }
    }
  }
  // The function itself is still computed: once, again, and its derivative.
  region.predicted_seconds +=
      (training ? 3 : 1) * static_cast<double>(wide) / rate(profile, "elementwise_in_cache");
  const std::int64_t forward =
      std::max({up.forward_peak_bytes - wide, up.saved_bytes, up.saved_bytes + down.forward_peak_bytes});
  const std::int64_t backward = std::max(up.saved_bytes + down.backward_peak_bytes - wide,
                                         gradient_bytes(down, false) + up.backward_peak_bytes);
  region.peak_bytes = training ? std::max(forward, backward) : forward;
  return region;
}

double score(const RegionPlan& plan, Goal goal) {
  switch (goal) {
    case Goal::multiply_adds:
      return static_cast<double>(plan.total_multiply_adds);
    case Goal::bytes:
      return static_cast<double>(plan.bytes_moved);
    case Goal::time:
      return plan.predicted_seconds;
    case Goal::memory:
      return static_cast<double>(plan.peak_bytes);
  }
  return 0;
}

void check_region(const Region& region) {
  const std::size_t count = region.layers.size();
  if (region.kind == RegionKind::single)
    check(count == 1, "[plan] a single layer is one layer, got {}", count);
  if (region.kind == RegionKind::shared_input) {
    check(count >= 2, "[plan] layers that share their input are two or more, got {}", count);
    for (const format::Shape& shape : region.layers)
      check(shape.rows == region.layers[0].rows, "[plan] layers of one input have one width, got {} and {}",
            region.layers[0].rows, shape.rows);
  }
  if (region.kind == RegionKind::feed_forward) {
    check(count == 2, "[plan] a feed-forward block has two layers, got {}", count);
    check(region.layers[0].cols == region.layers[1].rows, "[plan] {} columns do not fit {} rows",
          region.layers[0].cols, region.layers[1].rows);
  }
}

// The layers one by one, each at the request's goal, or with the smallest peak.
std::vector<Plan> layer_plans(const Region& region, Request request, const Profile& profile, bool smallest) {
  std::vector<Plan> plans;
  request.memory_limit = 0;
  if (smallest) request.goal = Goal::memory;
  for (std::size_t i = 0; i < region.layers.size(); ++i) {
    Request one = request;
    one.layers = {region.layers[i]};
    // The second layer of a block passes its gradient on to the first.
    if (region.kind == RegionKind::feed_forward && i == 1 && one.results == Results::without_input)
      one.results = Results::all;
    plans.push_back(make_plan(one, profile));
  }
  return plans;
}

std::vector<RegionPlan> ways_of(const Region& region, const Request& request, const Profile& profile,
                                bool smallest) {
  std::vector<RegionPlan> found;
  std::vector<Plan> plans = layer_plans(region, request, profile, smallest);
  if (region.kind == RegionKind::single) return {gathered("composed", std::move(plans))};
  if (region.kind == RegionKind::shared_input) {
    found.push_back(compose_shared(std::move(plans), profile));
    const auto& first = region.layers.front();
    const bool equal =
        std::all_of(region.layers.begin(), region.layers.end(), [&](const format::Shape& shape) {
          return shape.row_digits == first.row_digits && shape.col_digits == first.col_digits;
        });
    if (equal) {
      Request fused = request;
      fused.layers = region.layers;
      fused.memory_limit = 0;
      if (smallest) fused.goal = Goal::memory;
      found.push_back(gathered("fused", {make_plan(fused, profile)}));
    }
    return found;
  }
  std::vector<Plan> two_groups;
  for (const Plan& plan : plans) {
    const format::Shape& shape = plan.request.layers.front();
    const Tree tree = two_group_tree(static_cast<int>(shape.order()), static_cast<int>(shape.split()));
    two_groups.push_back(plan_tree(plan.request, tree, profile));
  }
  found.push_back(compose_feed_forward(std::move(plans), profile));
  found.push_back(fuse_feed_forward(std::move(two_groups), profile));
  return found;
}

}  // namespace

std::vector<RegionPlan> plan_region(const Region& region, const Request& request, const Profile& profile) {
  check_region(region);
  check(request.memory_limit >= 0, "[plan] a memory limit is a number of bytes or 0 for none, got {}",
        request.memory_limit);
  std::vector<RegionPlan> found;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  const auto take = [&](std::vector<RegionPlan> ways) {
    for (RegionPlan& way : ways) {
      smallest = std::min(smallest, way.peak_bytes);
      if (request.memory_limit == 0 || way.peak_bytes <= request.memory_limit)
        found.push_back(std::move(way));
    }
  };
  take(ways_of(region, request, profile, false));
  if (found.empty()) take(ways_of(region, request, profile, true));
  check(!found.empty(),
        "[plan] no plan of this region was found within {} bytes; a memory limit of {} bytes ({}) is met, an "
        "upper "
        "bound of the smallest",
        request.memory_limit, smallest, format_bytes(static_cast<double>(smallest)));
  std::stable_sort(found.begin(), found.end(), [&](const RegionPlan& a, const RegionPlan& b) {
    return score(a, request.goal) < score(b, request.goal);
  });
  return found;
}

}  // namespace comera::plan
