// The numbers of a controller that change from step to step: what a checkpoint holds, beside the zero
// streaks.
#pragma once

#include "stages.h"

#include <comera/base/json.h>
#include <comera/rank/controller.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace comera::rank {

struct Memory {
  std::int64_t start_size = 0;
  std::vector<double> l2_units;  ///< [weight] strength of the l2 term for gamma = 1
  Stage stage = Stage::early;
  std::optional<double> gamma;
  std::int64_t step = 0;
  double progress = 0;
  LateStage late;
  std::int64_t late_size = 0;  ///< parameters at the start of the late stage
  std::vector<double>
      sensitivity;      ///< [weight] rise of the loss for a unit of squared error; empty: not needed yet
  double fixed_at = 1;  ///< progress at which ranks were fixed after forced cuts; 1: they were not
  bool forced = false, finished = false;
  std::vector<std::int64_t> live;  ///< [bond] ranks that were not zero when last read
};

Json to_json(const Memory& memory);
/// Throws nlohmann::json::exception for a missing or mistyped value.
Memory memory_from_json(const Json& saved);

}  // namespace comera::rank
