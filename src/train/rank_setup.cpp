#include "rank_setup.h"

#include <cmath>

namespace comera::train {

std::unique_ptr<rank::Controller> make_controller(const Recipe& recipe, const nn::Model& model,
                                                  rank::Probe probe) {
  const RankRecipe& r = recipe.rank;
  auto trains = model.trains();
  if (!r.adapt || trains.empty()) return nullptr;
  const nn::ModelOptions& shape = model.options();
  const std::int64_t classes = shape.head == nn::Head::classifier ? shape.labels : shape.vocabulary;
  rank::Options options;
  options.rule = rank::parse_rule(r.rule);
  options.gamma = r.gamma * std::log(static_cast<double>(classes));  // the loss of a uniform guess
  if (r.target_parameters) options.target_parameters = r.target_parameters;
  if (r.target_bytes) options.target_bytes = r.target_bytes;
  if (r.target_loss > 0) options.target_loss = r.target_loss;
  options.early_end = r.early_end;
  options.cut_every = r.cut_every;
  options.layers_may_die = r.may_die;
  return std::make_unique<rank::Controller>(std::move(trains), options, std::move(probe),
                                            model.dependencies());
}

}  // namespace comera::train
