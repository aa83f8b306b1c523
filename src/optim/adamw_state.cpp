// How the state of AdamW follows rank changes, and how it is saved.
#include "adamw_update.h"

#include <comera/base/error.h>
#include <comera/optim/adamw.h>
#include <comera/weights/torch.h>

#include <cmath>
#include <limits>
#include <map>

namespace comera::optim {
namespace {

torch::Tensor flat_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return torch::cat(rows);
}

}  // namespace

void AdamW::apply(const std::vector<weights::WeightChange>& changes) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> first = first_.parts(), second = second_.parts();
  for (const auto& [weight, bonds] : changes) {
    const auto cores = weight.cores(), scales = weight.scales();
    for (std::size_t k = 0; k < cores.size(); ++k) {
      const std::size_t i = index_of(cores[k]);
      first[i] = weights::transform_first_moment(first[i], bonds, k);
      second[i] = weights::transform_second_moment(second[i], bonds, k);
    }
    for (std::size_t k = 0; k < scales.size(); ++k) {
      const std::size_t i = index_of(scales[k]);
      first[i] = weights::transform_scale_first_moment(first[i], bonds[k]);
      second[i] = weights::transform_scale_second_moment(second[i], bonds[k]);
    }
  }
  first_ = weights::FlatBuffer(first);
  second_ = weights::FlatBuffer(second);
  flat_.refresh();
}

void AdamW::rescale(const torch::Tensor& parameter, double factor) {
  const torch::NoGradGuard no_grad;
  const std::size_t i = index_of(parameter);
  torch::Tensor first = first_.parts()[i], second = second_.parts()[i];
  first.div_(factor);
  second.div_(factor * factor);
}

torch::Tensor AdamW::denominators(const std::vector<torch::Tensor>& parameters) const {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> seconds;
  for (const torch::Tensor& parameter : parameters) seconds.push_back(second_.parts()[index_of(parameter)]);
  const torch::Tensor second = flat_of(seconds);
  if (steps_ == 0) return torch::full_like(second, std::numeric_limits<double>::infinity());
  const double correction = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
  return second.div(correction).sqrt_().add_(options_.epsilon);
}

weights::SavedState AdamW::save() const {
  weights::SavedState state;
  const auto& parameters = flat_.parameters();
  Json groups = Json::array();
  for (const Group& group : groups_)
    groups.push_back({{"name", group.name},
                      {"learning_rate", group.learning_rate},
                      {"weight_decay", group.weight_decay},
                      {"parameters", Json::array()}});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    state.tensors.emplace_back("first." + parameters[i].name, first_.parts()[i]);
    state.tensors.emplace_back("second." + parameters[i].name, second_.parts()[i]);
    groups[members_[i].group]["parameters"].push_back(
        {{"name", parameters[i].name}, {"rate_factor", members_[i].rate_factor}});
  }
  state.values = {{"optimiser", "adamw"}, {"steps", steps_}, {"groups", groups}};
  return state;
}

void AdamW::load(const weights::SavedState& state) {
  const torch::NoGradGuard no_grad;
  const auto& parameters = flat_.parameters();
  std::map<std::string, torch::Tensor> saved(state.tensors.begin(), state.tensors.end());
  check(saved.size() == 2 * parameters.size(), "[adamw] the saved state holds {} moments, the model needs {}",
        saved.size(), 2 * parameters.size());
  const auto moments = [&](const std::string& prefix) {
    std::vector<torch::Tensor> result;
    for (const auto& [name, tensor] : parameters) {
      const auto found = saved.find(prefix + name);
      check(found != saved.end(), "[adamw] the saved state has no {}{}", prefix, name);
      const torch::Tensor& moment = found->second;
      check(moment.sizes() == tensor.sizes() && moment.scalar_type() == tensor.scalar_type(),
            "[adamw] saved moment {}{} is {} [{}], expected {} [{}]", prefix, name,
            c10::toString(moment.scalar_type()), fmt::join(moment.sizes(), ","),
            c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","));
      result.push_back(moment.to(tensor.device()));
    }
    return weights::FlatBuffer(result);
  };
  const weights::FlatBuffer first = moments("first."), second = moments("second.");

  std::vector<Group> groups = groups_;
  std::vector<Member> members = members_;
  std::int64_t steps = 0;
  try {
    check(state.values.at("optimiser") == "adamw", "[adamw] the saved state is of optimiser {}",
          state.values.at("optimiser").dump());
    steps = state.values.at("steps").get<std::int64_t>();
    check(steps >= 0, "[adamw] the saved state counts {} steps", steps);
    std::map<std::string, std::pair<std::string, double>> membership;
    for (const Json& entry : state.values.at("groups")) {
      const std::string name = entry.at("name");
      Group& group = groups[&this->group(name) - groups_.data()];
      group.learning_rate = entry.at("learning_rate");
      group.weight_decay = entry.at("weight_decay");
      for (const Json& parameter : entry.at("parameters"))
        membership[parameter.at("name")] = {name, parameter.at("rate_factor").get<double>()};
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto found = membership.find(parameters[i].name);
      check(found != membership.end(), "[adamw] the saved state puts {} in no group", parameters[i].name);
      check(found->second.first == groups[members[i].group].name,
            "[adamw] {} was saved in group {}, it is now in {}", parameters[i].name, found->second.first,
            groups[members[i].group].name);
      members[i].rate_factor = found->second.second;
    }
  } catch (const nlohmann::json::exception& error) {
    fail("[adamw] the saved state is damaged: {}", error.what());
  }
  first_ = first;
  second_ = second;
  groups_ = std::move(groups);
  members_ = std::move(members);
  steps_ = steps;
}

}  // namespace comera::optim
