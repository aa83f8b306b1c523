// What happened to the ranks at one bond of one weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace comera::format {

struct RankChange {
  std::string weight;  ///< name of the layer, e.g. "encoder.0.query"
  std::int64_t bond = 0;
  std::int64_t old_rank = 0;
  std::vector<std::int64_t> from;  ///< for each new rank the old index it continues, -1 = a new rank
  std::int64_t new_rank() const { return from.size(); }
  bool operator==(const RankChange&) const = default;
};

}  // namespace comera::format
