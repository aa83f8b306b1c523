// The plans in use: how each layer runs, decided once for a geometry and a bucket of tokens, kept and saved.
#pragma once

#include <comera/base/json.h>
#include <comera/exec/run_plan.h>
#include <comera/plan/plan.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace comera::exec {

/// What is to be decided: how layers of one shape run on so many rows.
struct LayerUse {
  format::Shape shape;  ///< TT, alive
  std::int64_t rows = 1;
  std::int64_t layers = 1;    ///< of this shape that could build their factors together
  std::int64_t forwards = 1;  ///< in one step, so that factors built once serve all of them
  plan::DType dtype = plan::DType::float32;
};

/// Seconds of a layer's part in the two-group order whose factors are built once a step for all layers of its
/// shape: what FactorScope and factored_linear do.
double two_groups_seconds(const LayerUse& use, const plan::Profile& profile);

class PlanBook {
 public:
  explicit PlanBook(plan::Profile profile) : profile_(std::move(profile)) {}

  /// The plan to run the layers by, for up to token_bucket(rows) rows, or none where two groups with factors
  /// built once a step are predicted to be as fast. The same answer for the same use.
  SharedPlan find(const LayerUse& use);

  /// Seconds spent planning since the last call, and lines for people about what was decided.
  double take_seconds() { return std::exchange(seconds_, 0); }
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

  /// Forgets the uses of other shapes than these.
  void keep_only(const std::vector<format::Shape>& shapes);
  /// The plans and the profile they were made by: a run that goes on elsewhere, or on a machine that was
  /// measured anew, decides as it would have.
  Json save() const;
  /// Takes the place of what is there, profile included. Throws Error naming `source` for what is not the
  /// state of a book.
  void load(const Json& json, const std::string& source);

 private:
  using Key = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;  // request, layers, forwards
  struct Entry {
    SharedPlan plan;  // of two groups where these are used
    bool two_groups = false;
  };
  plan::Profile profile_;
  std::map<Key, Entry> entries_;
  double seconds_ = 0;
  std::vector<std::string> news_;
};

}  // namespace comera::exec
