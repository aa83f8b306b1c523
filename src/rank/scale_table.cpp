#include "scale_table.h"

#include <ATen/ATen.h>

namespace comera::rank {

ScaleTable::ScaleTable(const std::vector<weights::NamedTensorTrain>& weights) {
  std::vector<std::int64_t> bond_of_entry, modes, left, right;
  torch::Device device = torch::kCPU;
  for (const auto& [name, weight] : weights) {
    const format::Shape& shape = weight.shape();
    device = weight.cores()[0].device();
    for (std::int64_t k = 0; k < shape.order(); ++k) {
      modes.push_back(shape.mode(k));
      left.push_back(k == 0 ? -1 : static_cast<std::int64_t>(lengths_.size()) - 1);
      right.push_back(k == shape.bonds() ? -1 : static_cast<std::int64_t>(lengths_.size()));
      if (k == shape.bonds()) break;
      bond_of_entry.insert(bond_of_entry.end(), shape.rank(k), lengths_.size());
      lengths_.push_back(shape.rank(k));
    }
    for (const torch::Tensor& scale : weight.scales()) parameters_.push_back(scale);
  }
  const std::int64_t border = lengths_.size();
  for (auto* bonds : {&left, &right})
    for (std::int64_t& bond : *bonds) bond = bond < 0 ? border : bond;
  const auto on_device = [&](const std::vector<std::int64_t>& values) {
    return torch::tensor(values, torch::kLong).to(device);
  };
  bond_of_entry_ = on_device(bond_of_entry);
  modes_ = on_device(modes);
  left_bond_ = on_device(left);
  right_bond_ = on_device(right);
}

torch::Tensor ScaleTable::values() const {
  const torch::NoGradGuard no_grad;
  return parameters_.empty() ? torch::empty({0}) : torch::cat(parameters_);
}

void ScaleTable::write(const torch::Tensor& values) const {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_copy_(parameters_, values.split_with_sizes(lengths_));
}

torch::Tensor ScaleTable::spread(const std::vector<double>& of_bond) const {
  const torch::Tensor numbers = torch::tensor(of_bond, torch::kDouble);
  const torch::ScalarType type = parameters_.empty() ? torch::kFloat : parameters_[0].scalar_type();
  return numbers.to(bond_of_entry_.device(), type, /*non_blocking=*/true).index_select(0, bond_of_entry_);
}

torch::Tensor ScaleTable::largest_in_bond(const torch::Tensor& values) const {
  const std::int64_t bonds = lengths_.size();
  return values.new_zeros({bonds})
      .scatter_reduce(0, bond_of_entry_, values, "amax")
      .index_select(0, bond_of_entry_);
}

torch::Tensor ScaleTable::first_largest(const torch::Tensor& values) const {
  const torch::Tensor places = torch::arange(values.size(0), bond_of_entry_.options());
  const std::int64_t bonds = lengths_.size(), none = -values.size(0);
  const torch::Tensor backwards = torch::where(values == largest_in_bond(values), -places, none);
  const torch::Tensor first =
      places.new_full({bonds}, none).scatter_reduce(0, bond_of_entry_, backwards, "amax");
  return places == -first.index_select(0, bond_of_entry_);
}

torch::Tensor ScaleTable::live_parameters(const torch::Tensor& values) const {
  const std::int64_t bonds = lengths_.size();
  torch::Tensor counts = torch::zeros({bonds + 1}, bond_of_entry_.options());
  counts.index_add_(0, bond_of_entry_, values.ne(0).to(torch::kLong));
  const torch::Tensor scales = counts.sum();
  counts.narrow(0, bonds, 1).fill_(1);
  return (modes_ * counts.index_select(0, left_bond_) * counts.index_select(0, right_bond_)).sum() + scales;
}

}  // namespace comera::rank
