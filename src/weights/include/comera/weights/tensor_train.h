// A weight held as tensor-train cores and rank scales: the parameters, their geometry and their two counters.
#pragma once

#include <comera/format/shape.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace comera::weights {

/// Cores and rank scales of one weight. Copies share the same parameters (like a torch module holder).
/// Everything that depends on the values or the geometry checks the two counters; there is no other
/// invalidation.
class TensorTrain {
 public:
  /// Cores filled with zeros, scales with ones; see initialise.h. dtype and device from `options`.
  explicit TensorTrain(format::Shape shape, torch::TensorOptions options = {});

  /// Registers the parameters in `owner` as "cores.k" and "scales.k" (0-based).
  void register_in(torch::nn::Module& owner) const;

  const format::Shape& shape() const { return state_->shape; }
  /// K tensors: TT [r_{k-1}, s_k, r_k], TTM [r_{k-1}, m_k, n_k, r_k].
  std::vector<torch::Tensor> cores() const;
  /// K - 1 tensors [r_k].
  std::vector<torch::Tensor> scales() const;

  /// Ranks changed: plans, moments and buckets are out of date.
  std::uint64_t geometry_version() const { return state_->geometry_version; }
  /// Values changed (an optimiser step, a load, a cut): built factors are out of date.
  std::uint64_t value_version() const { return state_->value_version; }
  /// To be called by whoever wrote into the parameters.
  void values_changed() { ++state_->value_version; }

  /// Replaces all values, and the ranks with them: the tensors decide the new shape, digits stay. The
  /// parameters keep their identity (so optimisers that hold them stay valid); their gradients are dropped.
  /// Bumps both counters. Refused with Error while a graph of an unfinished backward could still hold the old
  /// values: see begin_use/end_use.
  void replace(const std::vector<torch::Tensor>& cores, const std::vector<torch::Tensor>& scales);

  /// A forward that will be followed by a backward brackets the time between them; a replace in it throws.
  void begin_use() { ++state_->uses; }
  void end_use() { --state_->uses; }

 private:
  struct State {
    format::Shape shape;
    // Plain modules that name their parameters "0", "1", ...
    std::shared_ptr<torch::nn::Module> cores = std::make_shared<torch::nn::Module>();
    std::shared_ptr<torch::nn::Module> scales = std::make_shared<torch::nn::Module>();
    std::uint64_t geometry_version = 0, value_version = 0;
    std::int64_t uses = 0;
  };
  std::shared_ptr<State> state_;
};

/// A tensor train with the name of the layer that owns it, e.g. "encoder.0.attention.query".
struct NamedTensorTrain {
  std::string name;
  TensorTrain weight;
};

}  // namespace comera::weights
