#include <comera/base/error.h>
#include <comera/weights/materialize.h>

namespace comera::weights {

std::vector<torch::Tensor> fold_scales(const std::vector<torch::Tensor>& cores,
                                       const std::vector<torch::Tensor>& scales) {
  check(scales.size() + 1 == cores.size(), "[fold_scales] {} cores need {} rank scales, got {}", cores.size(),
        cores.size() - 1, scales.size());
  std::vector<torch::Tensor> folded = cores;
  for (std::size_t k = 0; k < scales.size(); ++k) folded[k] = cores[k] * scales[k];
  return folded;
}

std::pair<torch::Tensor, torch::Tensor> factors(const format::Shape& shape,
                                                const std::vector<torch::Tensor>& folded) {
  const std::size_t split = shape.split();
  torch::Tensor a = folded[0].flatten(0, 1), b = folded.back().flatten(1);
  for (std::size_t k = 1; k < split; ++k) a = a.matmul(folded[k].flatten(1)).reshape({-1, folded[k].size(2)});
  for (std::size_t k = folded.size() - 1; k-- > split;)
    b = folded[k].flatten(0, 1).matmul(b).reshape({folded[k].size(0), -1});
  return {a.narrow(0, 0, shape.rows), b.narrow(1, 0, shape.cols)};
}

torch::Tensor materialize(const format::Shape& shape, const std::vector<torch::Tensor>& cores,
                          const std::vector<torch::Tensor>& scales) {
  check(static_cast<std::int64_t>(cores.size()) == shape.order(), "[materialize] expected {} cores, got {}",
        shape.order(), cores.size());
  if (shape.dead()) return torch::zeros({shape.rows, shape.cols}, cores[0].options());
  const std::vector<torch::Tensor> folded = fold_scales(cores, scales);
  if (shape.kind == format::Kind::tt) {
    const auto [a, b] = factors(shape, folded);
    return a.matmul(b);
  }
  // `w` holds the rows and columns of the digits so far, and the open rank: [m, n, r].
  torch::Tensor w = folded[0].squeeze(0);
  for (std::size_t k = 1; k < folded.size(); ++k) {
    const auto m = folded[k].size(1), n = folded[k].size(2), r = folded[k].size(3);
    w = w.matmul(folded[k].flatten(1))
            .view({w.size(0), w.size(1), m, n, r})
            .transpose(1, 2)
            .flatten(2, 3)
            .flatten(0, 1);
  }
  return w.squeeze(2).narrow(0, 0, shape.rows).narrow(1, 0, shape.cols).contiguous();
}

torch::Tensor materialize(const TensorTrain& weight) {
  return materialize(weight.shape(), weight.cores(), weight.scales());
}

}  // namespace comera::weights
