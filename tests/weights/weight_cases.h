// The table of shapes that every property of the room is tested over, and random weights of them.
#pragma once

#include <comera/base/random.h>
#include <comera/weights/materialize.h>
#include <comera/weights/tensor_train.h>
#include <comera/weights/torch.h>

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace comera::format {
inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << to_string(shape) << " rows " << shape.rows << " cols " << shape.cols;
}
}  // namespace comera::format

namespace comera::test {

using format::Shape;
using List = std::vector<std::int64_t>;

inline Shape with_padding(Shape shape, std::int64_t rows, std::int64_t cols) {
  shape.rows = rows, shape.cols = cols;
  return shape;
}

inline std::vector<Shape> shape_cases() {
  using format::tt, format::ttm;
  return {
      tt({7}, {5}, {4}),                                         // plain low rank
      tt({6}, {4}, {1}),                                         // rank one
      tt({1}, {1}, {1}),                                         // one entry
      tt({6}, {5}, List{9}),                                     // rank above both sides
      tt({3, 5}, {7, 2}, {2, 4, 2}),                             // prime digits
      tt({2, 3, 5}, {7}, {9, 4, 6}),                             // p > q, rank above the mode
      tt({11}, {2, 3, 2}, {5, 20, 3}),                           // p < q, rank above what neighbours allow
      tt({2, 3, 2}, {3, 2, 3}, {1}),                             // six cores of rank one
      tt({3, 4, 2}, {2, 4, 3}, {3, 6, 5, 6, 3}),                 // six cores
      with_padding(tt({4, 5}, {3, 4}, {3, 6, 4}), 17, 10),       // padded on both sides
      with_padding(tt({3, 2, 3}, {5, 2}, {3, 5, 6, 2}), 13, 9),  // padded on both sides
      ttm(7, {7}, {5}, {1, 1}),                                  // one core
      with_padding(ttm(6, {7}, {5}, {1, 1}), 6, 4),              // one core, padded
      ttm(12, {3, 4}, {2, 5}, {5}),                              // two cores
      ttm(10, {3, 4}, {2, 5}, List{50}),                         // padded rows, rank above the mode
      ttm(97, {5, 7, 3}, {2, 3, 2}, {8, 4}),                     // padded to 105
      with_padding(ttm(23, {2, 3, 2, 2}, {2, 2, 1, 3}, {3, 9, 2}), 23, 11),
      ttm(61, {2, 2, 2, 2, 2, 2}, {1, 2, 1, 2, 1, 2}, {2, 4, 6, 4, 2}),
  };
}

inline torch::Tensor random_tensor(at::IntArrayRef sizes, RandomStream& random) {
  const torch::Tensor tensor = torch::empty(sizes, torch::kDouble);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = random.normal();
  return tensor;
}

/// Normal cores, scales in [0.5, 1.5).
inline weights::TensorTrain random_weight(const Shape& shape, std::uint64_t seed,
                                          torch::Dtype dtype = torch::kDouble) {
  weights::TensorTrain weight(shape, torch::TensorOptions().dtype(dtype));
  RandomStream random(seed);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor core : weight.cores()) core.copy_(random_tensor(core.sizes(), random));
  for (torch::Tensor scale : weight.scales())
    for (std::int64_t j = 0; j < scale.size(0); ++j) scale[j] = 0.5 + random.uniform();
  return weight;
}

inline double relative_error(const torch::Tensor& got, const torch::Tensor& wanted) {
  const double norm = wanted.norm().item<double>(), error = (got - wanted).norm().item<double>();
  return norm > 0 ? error / norm : error;
}

inline std::string name_of_index(const testing::TestParamInfo<Shape>& info) {
  return "shape" + std::to_string(info.index);
}

}  // namespace comera::test
