// Many tensors in one contiguous buffer, so that an optimiser makes one pass and a save is one write.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::weights {

/// One flat tensor and its parts, which are views of it in order.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// Copies `tensors` (one dtype and device) into one buffer.
  explicit FlatBuffer(const std::vector<torch::Tensor>& tensors);
  const torch::Tensor& flat() const { return flat_; }
  const std::vector<torch::Tensor>& parts() const { return parts_; }
  /// Offset of part i in the flat tensor, in elements.
  std::int64_t offset(std::size_t i) const { return offsets_[i]; }

 private:
  torch::Tensor flat_;
  std::vector<torch::Tensor> parts_;
  std::vector<std::int64_t> offsets_;
};

/// Named parameters whose values and gradients live in two flat buffers: parameters and their .grad are
/// views. After a cut changed parameter sizes, refresh() packs again.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  explicit FlatParameters(std::vector<Parameter> parameters);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const FlatBuffer& values() const { return values_; }
  const FlatBuffer& gradients() const { return gradients_; }
  void zero_gradients();
  void refresh();
  /// Bytes of values + gradients.
  std::int64_t bytes() const;

 private:
  std::vector<Parameter> parameters_;
  FlatBuffer values_, gradients_;
};

}  // namespace comera::weights
