// Layers that are planned together: some that share their input, or the two of a feed-forward block.
#pragma once

#include <comera/plan/plan.h>

namespace comera::plan {

enum class RegionKind {
  single,        ///< one layer
  shared_input,  ///< q, k, v: several layers of one X
  feed_forward   ///< two layers with an element-wise function between
};

struct Region {
  RegionKind kind = RegionKind::single;
  std::vector<format::Shape> layers;
  bool operator==(const Region&) const = default;
};

/// One way to run a region, whole.
struct RegionPlan {
  std::string name;         ///< "composed" or "fused"
  std::vector<Plan> plans;  ///< one a layer; one in all for fused layers of a shared input
  /// feed_forward, fused: runs by blocks of rows, so that the wide activation stays in cache and is computed
  /// again in the backward.
  bool row_blocks = false;
  std::int64_t total_multiply_adds = 0;  ///< recomputation included
  std::int64_t bytes_moved = 0;          ///< element-wise passes between the layers included
  std::int64_t saved_bytes = 0;          ///< activations between the layers included
  std::int64_t peak_bytes = 0;  ///< forward in order, backward in reverse, outputs of the region not counted
  double predicted_seconds = 0;
};

/// Every way, the best under the goal (and within the memory limit) first. `request` gives all but the
/// layers. Fused layers of a shared input need equal digits; where they differ only "composed" is there.
/// Throws like make_plan, and for layers that do not fit each other.
std::vector<RegionPlan> plan_region(const Region& region, const Request& request, const Profile& profile);

}  // namespace comera::plan
