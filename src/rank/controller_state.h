// What the controller keeps between steps, and its parts. See controller.h for what it does.
#pragma once

#include "memory.h"
#include "scale_table.h"
#include "truncation.h"

#include <comera/rank/controller.h>

#include <optional>
#include <string>
#include <vector>

namespace comera::rank {

struct Controller::State : Memory {
  // Given.
  std::vector<weights::NamedTensorTrain> weights;
  Options options;
  Probe probe;
  std::vector<std::vector<std::size_t>>
      dies_with;  // [weight] itself and what is useless without it; empty: may not die
  double early_end = 1, budget_end = 1;
  std::int64_t target_size = 0;

  torch::Tensor zero_streak;                       // [entries] consecutive steps at zero
  std::optional<ScaleTable> table;                 // of the present ranks
  std::vector<Event> events;                       // of the present call
  std::vector<weights::WeightChange> changes;      // made, not yet followed by the optimiser
  std::vector<std::vector<std::int64_t>> streaks;  // [bond][rank] zero_streak on the host while ranks change

  // terms.cpp: what prices do in every step.
  double price() const;
  /// The late stage weighs size against loss only when it knows what loss is wanted. With a size target alone
  /// prices stay, and the budget does the rest.
  bool has_phases() const { return options.target_loss.has_value(); }
  double l2_strength() const;
  void shrink(weights::OptimiserState& optimiser);

  // controller.cpp: stages.
  void begin_late();
  void fix(const std::string& why);
  void log(EventKind kind, std::string text);
  std::int64_t size() const;
  std::int64_t smallest_size() const;

  // cuts.cpp: ranks that go.
  void cut_at_schedule(weights::OptimiserState& optimiser);
  void force_to(std::int64_t budget, weights::OptimiserState& optimiser);
  void count_live();
  std::int64_t live_size() const;
  void measure_sensitivities();
  void read_zero_streaks();
  void cut_zeros();
  void cut_to(std::int64_t budget);
  void cut_while_loss_allows();
  std::vector<std::vector<std::int64_t>> ranks_within(std::int64_t budget) const;
  void round_all(const std::vector<std::vector<std::int64_t>>& ranks, const std::string& why);
  void change_ranks(std::size_t weight, const std::vector<weights::BondChange>& bonds);
  void log_ranks(EventKind kind, std::size_t weight, std::vector<std::int64_t> old_ranks, std::string text);
  void follow(weights::OptimiserState& optimiser);
  void rescale_bonds(weights::OptimiserState& optimiser);

  // deaths.cpp: weights that go.
  std::int64_t rank_one_size() const;  // every weight that lives at rank 1
  std::int64_t group_size(std::size_t weight) const;
  double loss_without(std::size_t weight) const;
  void let_die(std::size_t weight, const std::string& why);
  void consider_deaths();
  void force_deaths(std::int64_t budget);
};

std::vector<std::int64_t> inner_ranks(const format::Shape& shape);
std::vector<std::int64_t> modes_of(const format::Shape& shape);

}  // namespace comera::rank
