// All rank scales of the model as one flat vector, so that a step needs a handful of operations whatever the
// number of layers. Only tensors of this layout are kept between cuts; nothing here reads the device.
#pragma once

#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <vector>

namespace comera::rank {

class ScaleTable {
 public:
  /// For the present ranks; make a new one after a cut.
  explicit ScaleTable(const std::vector<weights::NamedTensorTrain>& weights);

  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  /// One entry for each rank: [entries], weight by weight, bond by bond.
  torch::Tensor values() const;
  void write(const torch::Tensor& values) const;

  /// [entries] from one number a bond.
  torch::Tensor spread(const std::vector<double>& of_bond) const;
  /// Largest entry of each bond, seen by all its entries: [entries].
  torch::Tensor largest_in_bond(const torch::Tensor& values) const;
  /// One entry of each bond, the first of its largest: bool [entries].
  torch::Tensor first_largest(const torch::Tensor& values) const;
  /// Parameters of cores and scales when only entries that are not zero count: int64 scalar on the device.
  torch::Tensor live_parameters(const torch::Tensor& values) const;

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<std::int64_t> lengths_;
  torch::Tensor bond_of_entry_;                   // [entries]
  torch::Tensor modes_, left_bond_, right_bond_;  // [cores]; the bond after the last one stands for a border
};

}  // namespace comera::rank
