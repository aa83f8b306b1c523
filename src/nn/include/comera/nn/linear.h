// Linear layers: dense, or held as tensor-train cores (plain low rank is the train with one digit a side).
#pragma once

#include <comera/exec/run_plan.h>
#include <comera/nn/layer_format.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace comera::nn {

/// x [..., in] -> [..., out].
class LinearBase : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
  virtual LayerInfo info() const = 0;
};

class DenseLinear : public LinearBase {
 public:
  /// weight [out, in] ~ N(0, 1/in), bias zero; values depend on `key` only.
  DenseLinear(std::int64_t in, std::int64_t out, bool bias, std::uint64_t key);
  torch::Tensor forward(const torch::Tensor& x) override;
  LayerInfo info() const override;
  torch::Tensor weight, bias;
};

struct TtLinearOptions {
  std::vector<std::int64_t> in;     ///< digits of the input width
  std::vector<std::int64_t> out;    ///< digits of the output width
  std::vector<std::int64_t> ranks;  ///< one number, the inner ranks, or all with borders
  bool bias = true;
  std::uint64_t key = 1;  ///< seed of the starting values
};

/// Y = X W + bias with W as TT cores. Alone it builds its factors each forward; in a FactorScope they are
/// built once a step for all layers together. Parameters: cores.k, scales.k, bias.
class TtLinearImpl : public LinearBase {
 public:
  explicit TtLinearImpl(const TtLinearOptions& options);
  /// `warning`: what is bad about the choice of the shape, shown by info().
  TtLinearImpl(format::Shape shape, bool bias, std::uint64_t key, std::string warning = {});
  torch::Tensor forward(const torch::Tensor& x) override;
  LayerInfo info() const override;

  const weights::TensorTrain& tensor_train() const { return weight_; }
  weights::TensorTrain& tensor_train() { return weight_; }
  /// W [in, out]; builds it.
  torch::Tensor materialize() const;

  /// The factors to use until unbind(), made by a FactorScope: A [in, r], B [r, out].
  void bind(torch::Tensor a, torch::Tensor b);
  /// The plan to run by until unbind().
  void bind(exec::SharedPlan plan);
  void unbind();
  torch::Tensor bias;

 private:
  void begin_use();
  weights::TensorTrain weight_;
  std::string warning_;
  torch::Tensor a_, b_;
  exec::SharedPlan plan_;
};

/// The module holder; takes the options in braces: TtLinear({.in = {12, 8, 8}, .out = {8, 8, 12}, .ranks =
/// {30}}).
class TtLinear : public torch::nn::ModuleHolder<TtLinearImpl> {
 public:
  using torch::nn::ModuleHolder<TtLinearImpl>::ModuleHolder;
  using Impl = TtLinearImpl;
  explicit TtLinear(const TtLinearOptions& options) : ModuleHolder(std::make_shared<TtLinearImpl>(options)) {}
};

/// The layer that `format` asks for.
std::shared_ptr<LinearBase> make_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias,
                                        const LayerFormat& format, std::uint64_t key);

}  // namespace comera::nn
