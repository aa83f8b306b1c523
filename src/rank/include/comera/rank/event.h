// One line of the log of rank adaptation.
#pragma once

#include <comera/base/json.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::rank {

enum class EventKind {
  stage,       ///< a stage began
  phase,       ///< the late stage switched between loss and size
  cut,         ///< ranks whose scales were zero, and ranks no neighbour can use, were removed
  forced_cut,  ///< ranks removed by budget, chosen by bond singular values
  death,       ///< a weight became its bias
  target,      ///< a target was met, or was not
};

struct Event {
  std::int64_t step = 0;
  EventKind kind = EventKind::stage;
  std::string layer;                               ///< cut, forced_cut and death only
  std::vector<std::int64_t> old_ranks, new_ranks;  ///< inner ranks of that layer
  std::int64_t size = 0;                           ///< compressible parameters afterwards
  std::string text;                                ///< what and why, for people
};

std::string to_string(EventKind kind);
/// One line: "step 300 cut encoder.0.query: ranks 12,30,30,30,12 -> 12,24,17,20,12, 1.02M parameters left".
std::string to_string(const Event& event);
Json to_json(const Event& event);

}  // namespace comera::rank
