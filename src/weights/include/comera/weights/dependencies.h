// Which weights are useless without others; filled in by the model, used when a whole weight may be switched
// off.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace comera::weights {

struct Dependencies {
  /// Weights that may end at rank 0 (all others keep rank 1 at least): tables and heads are not among them.
  std::vector<std::string> may_die;
  /// first: a weight; second: the weights that are useless once it is dead (an output projection makes query,
  /// key and value useless; feed-forward down makes up useless and the other way round).
  std::vector<std::pair<std::string, std::vector<std::string>>> useless_without;
};

}  // namespace comera::weights
