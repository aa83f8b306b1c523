// AdamW over flat storage: one pass over values, gradients and moments for the whole model.
#pragma once

#include <comera/weights/flat.h>
#include <comera/weights/optimiser_state.h>
#include <comera/weights/saved_state.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace comera::optim {

/// Parameters that share a learning rate and a weight decay. Saved states are matched by `name`.
struct Group {
  std::string name;
  double learning_rate = 1e-3;  ///< may change from step to step
  double weight_decay = 0;
};

struct Parameter {
  std::string name;  ///< unique, e.g. "encoder.0.query.cores.2"
  torch::Tensor tensor;
  std::string group;
  double rate_factor = 1;  ///< multiplies the group's learning rate for this parameter
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip_norm =
      0;  ///< gradients are scaled so that their global L2 norm is at most this; 0: not clipped
};

struct AdamWStep;  // internal: the numbers of one step

/// Loshchilov and Hutter, ICLR 2019; the same update as torch::optim::AdamW. Moments have the dtype and
/// device of the parameters (float or double). On the CPU the result does not depend on the number of
/// threads. A parameter that received no gradient counts as one with a zero gradient.
class AdamW final : public weights::OptimiserState {
 public:
  /// Takes the parameters into flat storage (they keep their identity; values and gradients become views).
  /// Throws Error for an unknown group, a name given twice, or parameters of more than one dtype or device.
  AdamW(std::vector<Parameter> parameters, std::vector<Group> groups, AdamWOptions options = {});

  void zero_gradients() { flat_.zero_gradients(); }
  /// One update. Returns the global norm of the gradients before clipping, a scalar on their device. When it
  /// is not finite, values and moments stay as they are, so the caller can still look for the culprit.
  torch::Tensor step();

  /// The group of that name, to change its learning rate; Error when there is none.
  Group& group(const std::string& name);
  const std::vector<Group>& groups() const { return groups_; }
  void set_rate_factor(const torch::Tensor& parameter, double factor);
  /// Updates done.
  std::int64_t steps() const { return steps_; }
  const weights::FlatParameters& parameters() const { return flat_; }
  /// Bytes of the moments. Values and gradients: parameters().bytes().
  std::int64_t bytes() const;

  void apply(const std::vector<weights::WeightChange>& changes) override;
  void rescale(const torch::Tensor& parameter, double factor) override;
  torch::Tensor denominators(const std::vector<torch::Tensor>& parameters) const override;
  double learning_rate(const torch::Tensor& parameter) const override;

  /// Moments under "first.NAME" and "second.NAME", groups and step count as JSON.
  weights::SavedState save() const;
  /// Throws Error naming what differs (parameter, size, dtype, group) and then leaves the state as it was.
  void load(const weights::SavedState& state);

 private:
  struct Member {
    std::size_t group;
    double rate_factor;
  };
  std::size_t index_of(const torch::Tensor& parameter) const;
  std::size_t parameter_at(std::int64_t entry) const;
  double rate_of(std::size_t index) const;
  AdamWStep next_step() const;
  torch::Tensor step_on_cpu(const torch::Tensor& values, const torch::Tensor& gradients);
  torch::Tensor step_on_any_device(const torch::Tensor& values, const torch::Tensor& gradients);

  weights::FlatParameters flat_;
  weights::FlatBuffer first_, second_;  // moments, laid out like the values
  std::vector<Group> groups_;
  std::vector<Member> members_;  // by parameter, in the order of flat_
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace comera::optim
