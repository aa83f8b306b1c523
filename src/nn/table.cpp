#include "host_random.h"

#include <comera/base/error.h>
#include <comera/nn/table.h>
#include <comera/ops/ttm_embedding.h>
#include <comera/weights/initialise.h>

namespace comera::nn {

DenseTable::DenseTable(std::int64_t rows, std::int64_t cols, double std, std::uint64_t key) {
  weight = register_parameter("weight", normal_tensor({rows, cols}, std, key));
}

torch::Tensor DenseTable::forward(const torch::Tensor& indices) { return torch::embedding(weight, indices); }

LayerInfo DenseTable::info() const {
  return {name(), "dense", std::nullopt, weight.numel(), weight.numel(), ""};
}

TtmTableImpl::TtmTableImpl(format::Shape shape, double std, std::uint64_t key, std::string warning)
    : weight_(std::move(shape)), warning_(std::move(warning)) {
  weight_.register_in(*this);
  weights::initialise_std(weight_, key, std);
}

torch::Tensor TtmTableImpl::forward(const torch::Tensor& indices) {
  return ops::ttm_embedding(indices, weight_.cores(), weight_.scales(), weight_.shape().rows);
}

LayerInfo TtmTableImpl::info() const {
  const format::Shape& shape = weight_.shape();
  const bool low_rank = shape.order() == 2 && shape.row_digits[1] == 1 && shape.col_digits[0] == 1;
  return {name(),  low_rank ? "low_rank" : "ttm", shape, shape.parameters(), shape.dense_parameters(),
          warning_};
}

std::shared_ptr<TableBase> make_table(const std::string& name, std::int64_t rows, std::int64_t cols,
                                      double std, const LayerFormat& format, std::uint64_t key) {
  if (format.kind == LayerKind::dense) return std::make_shared<DenseTable>(rows, cols, std, key);
  std::string warning;
  format::Shape shape = table_shape(name, rows, cols, format, &warning);
  return std::make_shared<TtmTableImpl>(std::move(shape), std, key, std::move(warning));
}

}  // namespace comera::nn
