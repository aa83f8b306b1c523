// Saving and loading a controller.
#include "controller_state.h"

#include <comera/base/error.h>

namespace comera::rank {

weights::SavedState Controller::save() const {
  const State& state = *state_;
  Json ranks = Json::object();
  for (const auto& [name, weight] : state.weights) ranks[name] = inner_ranks(weight.shape());
  weights::SavedState saved;
  saved.tensors.emplace_back("zero_streak", state.zero_streak);
  saved.values = {{"ranks", ranks}, {"target_size", state.target_size}, {"memory", to_json(state)}};
  return saved;
}

void Controller::load(const weights::SavedState& saved) {
  State& state = *state_;
  try {
    const Json& ranks = saved.values.at("ranks");
    check(ranks.size() == state.weights.size(), "[rank] the saved state has {} weights, the model has {}",
          ranks.size(), state.weights.size());
    for (const auto& [name, weight] : state.weights) {
      check(ranks.contains(name), "[rank] the saved state does not know the weight {}", name);
      const auto of_weight = ranks.at(name).get<std::vector<std::int64_t>>();
      check(of_weight == inner_ranks(weight.shape()), "[rank] {} was saved with ranks {}, the model has {}",
            name, fmt::join(of_weight, ","), fmt::join(inner_ranks(weight.shape()), ","));
    }
    const std::int64_t target = saved.values.at("target_size");
    check(target == state.target_size,
          "[rank] the run was saved with a size target of {} parameters, now it is {}; resume with the same",
          target, state.target_size);
    // The weights may have been cut since this controller was made.
    ScaleTable table(state.weights);
    check(saved.tensors.size() == 1 && saved.tensors[0].first == "zero_streak" &&
              saved.tensors[0].second.sizes() == table.values().sizes(),
          "[rank] the saved state has no zero_streak of {} entries", table.values().numel());
    Memory memory = memory_from_json(saved.values.at("memory"));
    const std::size_t count = state.weights.size();
    check(memory.l2_units.size() == count &&
              (memory.sensitivity.empty() || memory.sensitivity.size() == count) &&
              memory.live.size() == table.parameters().size() && memory.start_size >= 1 &&
              memory.stage >= Stage::early && memory.stage <= Stage::fixed,
          "[rank] the saved state does not fit the model");
    static_cast<Memory&>(state) = std::move(memory);
    state.zero_streak = saved.tensors[0].second.to(state.zero_streak.options()).clone();
    state.table.emplace(std::move(table));
  } catch (const nlohmann::json::exception& error) {
    fail("[rank] the saved state is damaged: {}", error.what());
  }
}

}  // namespace comera::rank
