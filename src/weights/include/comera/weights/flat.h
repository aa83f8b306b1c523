// Many tensors in one contiguous buffer, so that an optimiser makes one pass and a save is one write.
#pragma once

#include <comera/weights/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comera::weights {

/// One flat tensor and its parts, which are views of it, in order and without gaps.
class FlatBuffer {
 public:
  FlatBuffer() = default;
  /// Copies `tensors` (one dtype and device; empty ones allowed) into one new buffer.
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

/// Named parameters whose values and gradients live in two flat buffers: each parameter and its .grad are
/// views, and a backward accumulates into the flat gradient. The parameters stay the same tensors throughout.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
  };
  /// Names must be distinct, and so must tensors. Existing gradients are kept, missing ones become zeros.
  explicit FlatParameters(std::vector<Parameter> parameters);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Throw Error when a parameter (or its .grad) no longer lies in the buffer: after a cut call refresh();
  /// clear gradients by zero_gradients() rather than by setting them to none.
  const FlatBuffer& values() const;
  const FlatBuffer& gradients() const;

  /// One memset; gradients that were replaced or set to none are views again afterwards.
  void zero_gradients();
  /// Packs again after a cut. Gradients of parameters that were not cut are kept.
  void refresh();
  /// Bytes of values + gradients.
  std::int64_t bytes() const;

 private:
  std::vector<Parameter> parameters_;
  FlatBuffer values_, gradients_;
};

}  // namespace comera::weights
