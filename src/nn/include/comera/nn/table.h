// Embedding tables: dense, or held as TTM cores.
#pragma once

#include <comera/nn/layer_format.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>

namespace comera::nn {

/// indices [...] int32/int64 -> [..., cols].
class TableBase : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& indices) = 0;
  virtual LayerInfo info() const = 0;
};

class DenseTable : public TableBase {
 public:
  /// weight [rows, cols] ~ N(0, std^2).
  DenseTable(std::int64_t rows, std::int64_t cols, double std, std::uint64_t key);
  torch::Tensor forward(const torch::Tensor& indices) override;
  LayerInfo info() const override;
  torch::Tensor weight;
};

/// Parameters: cores.k [r, m, n, r'], scales.k. Starts with mean square std^2 exactly.
class TtmTableImpl : public TableBase {
 public:
  /// `warning`: what is bad about the choice of the shape, shown by info().
  TtmTableImpl(format::Shape shape, double std, std::uint64_t key, std::string warning = {});
  torch::Tensor forward(const torch::Tensor& indices) override;
  LayerInfo info() const override;
  const weights::TensorTrain& tensor_train() const { return weight_; }
  weights::TensorTrain& tensor_train() { return weight_; }

 private:
  weights::TensorTrain weight_;
  std::string warning_;
};
TORCH_MODULE(TtmTable);

std::shared_ptr<TableBase> make_table(const std::string& name, std::int64_t rows, std::int64_t cols,
                                      double std, const LayerFormat& format, std::uint64_t key);

}  // namespace comera::nn
