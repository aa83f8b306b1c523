#include "build_factors/chains.h"

#include "tasks.h"

namespace comera::ops::build_factors_chains {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// Tensor `position` of every layer, in one: [layers, ...].
Tensor stacked(torch::TensorList tensors, std::int64_t layers, std::int64_t position) {
  const std::int64_t positions = tensors.size() / layers;
  if (layers == 1) return tensors[position].unsqueeze(0).contiguous();
  Tensors all;
  for (std::int64_t layer = 0; layer < layers; ++layer) all.push_back(tensors[layer * positions + position]);
  return at::stack(all);
}

// [layers, r] beside cores [layers, r', s, r].
Tensor beside_core(const Tensor& scale) { return scale.unsqueeze(1).unsqueeze(1); }

// A core [layers, r, s, r'] as a matrix, its mode with the right or with the left rank.
Tensor wide(const Tensor& core) {
  return core.view({core.size(0), core.size(1), core.size(2) * core.size(3)});
}
Tensor tall(const Tensor& core) {
  return core.view({core.size(0), core.size(1) * core.size(2), core.size(3)});
}

// C_1, C_1 C_2, .. from the left border: [layers, m_1*..*m_k, r_k].
Tensors left_products(at::ArrayRef<Tensor> links) {
  Tensors products{tall(links[0])};
  for (const Tensor& link : links.slice(1)) {
    const auto product = products.back().bmm(wide(link));
    products.push_back(product.view({product.size(0), product.size(1) * link.size(2), link.size(3)}));
  }
  return products;
}

// .., C_{K-1} C_K, C_K from the right border: [layers, r_{k-1}, n_k*..*n_K], in the order of the links.
Tensors right_products(at::ArrayRef<Tensor> links) {
  Tensors products(links.size());
  products.back() = wide(links.back());
  for (std::size_t k = links.size() - 1; k-- > 0;) {
    const auto product = tall(links[k]).bmm(products[k + 1]);
    products[k] = product.view({product.size(0), links[k].size(1), links[k].size(2) * product.size(2)});
  }
  return products;
}

// Gradients of the links from that of the last left product. inner: products 2..p-1.
Tensors left_gradients(Tensor gradient, at::ArrayRef<Tensor> links, at::ArrayRef<Tensor> inner) {
  Tensors result(links.size());
  for (std::size_t k = links.size() - 1; k > 0; --k) {
    const auto before = k == 1 ? tall(links[0]) : inner[k - 2];
    const auto matrix = gradient.view({before.size(0), before.size(1), links[k].size(2) * links[k].size(3)});
    result[k] = before.mT().bmm(matrix).view(links[k].sizes());
    gradient = matrix.bmm(wide(links[k]).mT());
  }
  result[0] = gradient.view(links[0].sizes());
  return result;
}

// Likewise from that of the first right product. inner: products 2..q-1 of the q links.
Tensors right_gradients(Tensor gradient, at::ArrayRef<Tensor> links, at::ArrayRef<Tensor> inner) {
  Tensors result(links.size());
  for (std::size_t k = 0; k + 1 < links.size(); ++k) {
    const auto after = k + 2 == links.size() ? wide(links[k + 1]) : inner[k];
    const auto matrix = gradient.view({after.size(0), links[k].size(1) * links[k].size(2), after.size(2)});
    result[k] = matrix.bmm(after.mT()).view(links[k].sizes());
    gradient = tall(links[k]).mT().bmm(matrix);
  }
  result.back() = gradient.view(links.back().sizes());
  return result;
}

// What lies between both ends of a chain of products.
at::ArrayRef<Tensor> inner_products(const Tensors& products) {
  return at::ArrayRef<Tensor>(products).slice(1, std::max<std::size_t>(products.size(), 2) - 2);
}

Tensors forward(torch::TensorList cores, torch::TensorList scales, std::int64_t layers, std::int64_t split,
                bool on_cpu) {
  const std::int64_t positions = cores.size() / layers;
  Tensors links(positions), left, right;
  run_tasks(2, on_cpu, [&](std::int64_t side) {
    const std::int64_t begin = side == 0 ? 0 : split, end = side == 0 ? split : positions;
    for (std::int64_t k = begin; k < end; ++k) {
      links[k] = stacked(cores, layers, k);
      if (k + 1 < positions) links[k] = links[k] * beside_core(stacked(scales, layers, k));
    }
    const auto chain = at::ArrayRef<Tensor>(links).slice(begin, end - begin);
    (side == 0 ? left : right) = side == 0 ? left_products(chain) : right_products(chain);
  });
  // A chain of one core is that core: its factor must not share memory with what is saved or given.
  Tensors result{split == 1 ? left.back().clone() : left.back(),
                 split + 1 == positions ? right.front().clone() : right.front()};
  result.insert(result.end(), links.begin(), links.end() - 1);
  for (const auto* products : {&left, &right}) {
    const auto inner = inner_products(*products);
    result.insert(result.end(), inner.begin(), inner.end());
  }
  return result;
}

Tensors backward(const Tensor& da, const Tensor& db, torch::TensorList cores, torch::TensorList scales,
                 torch::TensorList saved, std::int64_t layers, std::int64_t split, std::array<bool, 2> needed,
                 bool on_cpu) {
  const std::int64_t positions = cores.size() / layers;
  Tensors links(saved.begin(), saved.begin() + positions - 1);
  links.push_back(stacked(cores, layers, positions - 1));
  const auto all_links = at::ArrayRef<Tensor>(links);
  const auto inner = saved.slice(positions - 1);
  const std::int64_t left_inner = std::max<std::int64_t>(split, 2) - 2;

  Tensors core_gradients(positions), scale_gradients(positions - 1);
  run_tasks(2, on_cpu, [&](std::int64_t side) {
    const std::int64_t begin = side == 0 ? 0 : split, end = side == 0 ? split : positions;
    const auto chain = all_links.slice(begin, end - begin);
    auto gradients = side == 0 ? left_gradients(da.contiguous(), chain, inner.slice(0, left_inner))
                               : right_gradients(db.contiguous(), chain, inner.slice(left_inner));
    for (std::int64_t k = begin; k < end; ++k) {
      auto& gradient = gradients[k - begin];
      if (k + 1 < positions && needed[1])
        scale_gradients[k] = (gradient * stacked(cores, layers, k)).sum(torch::IntArrayRef{1, 2});
      if (k + 1 < positions) gradient = gradient * beside_core(stacked(scales, layers, k));
      core_gradients[k] = gradient;
    }
  });
  Tensors result;
  if (needed[0]) result = core_gradients;
  if (needed[1]) result.insert(result.end(), scale_gradients.begin(), scale_gradients.end());
  return result;
}

}  // namespace

Tensors forward(torch::TensorList cores, torch::TensorList scales, std::int64_t layers, std::int64_t split) {
  return forward(cores, scales, layers, split, cores[0].is_cpu());
}
Tensors backward(const Tensor& da, const Tensor& db, torch::TensorList cores, torch::TensorList scales,
                 torch::TensorList saved, std::int64_t layers, std::int64_t split,
                 std::array<bool, 2> needed) {
  return backward(da, db, cores, scales, saved, layers, split, needed, cores[0].is_cpu());
}
Tensors forward_meta(torch::TensorList cores, torch::TensorList scales, std::int64_t layers,
                     std::int64_t split) {
  return forward(cores, scales, layers, split, false);
}
Tensors backward_meta(const Tensor& da, const Tensor& db, torch::TensorList cores, torch::TensorList scales,
                      torch::TensorList saved, std::int64_t layers, std::int64_t split,
                      std::array<bool, 2> needed) {
  return backward(da, db, cores, scales, saved, layers, split, needed, false);
}

}  // namespace comera::ops::build_factors_chains
