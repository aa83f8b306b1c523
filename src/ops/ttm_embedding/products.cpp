#include "ttm_embedding/products.h"

#include "blas.h"
#include "tasks.h"
#include "ttm_embedding/chain_products.h"
#include "ttm_embedding/lookup.h"

#include <algorithm>

namespace comera::ops::ttm_products {
namespace {

using torch::Tensor, torch::TensorList;
using namespace ttm;

Geometry geometry_of(TensorList cores) {
  Geometry geometry{{}, {}, {cores.front().size(0)}};
  for (const Tensor& core : cores) {
    geometry.row_digits.push_back(core.size(1));
    geometry.col_digits.push_back(core.size(2));
    geometry.ranks.push_back(core.size(3));
  }
  return geometry;
}

Integers values_of(const Tensor& indices) {
  const auto wide = indices.to(torch::kInt64).contiguous();
  const auto* first = wide.const_data_ptr<std::int64_t>();
  return Integers(first, first + wide.numel());
}

Tensor scaled(TensorList cores, TensorList scales, std::int64_t k) {
  return k < static_cast<std::int64_t>(scales.size()) ? cores[k] * scales[k] : cores[k];
}

// The look-up's plan and the products of both sides.
struct Sides {
  Lookup lookup;
  Tensors prefix_links, suffix_links;  // [m, rank nearer the border, n, other rank]
  Tensors prefix_products,
      suffix_products;  // by level; the last suffix level has its columns in reverse order
  Tensor prefix;        // [entries, N, r]
  Tensor suffix;        // [entries, r, N']

  Sides(const Tensor& indices, TensorList cores, TensorList scales)
      : lookup(make_lookup(values_of(indices), geometry_of(cores))) {
    for (std::int64_t k = 0; k < lookup.split; ++k)
      prefix_links.push_back(scaled(cores, scales, k).permute({1, 0, 2, 3}).contiguous());
    for (std::int64_t k = cores.size() - 1; k >= lookup.split; --k)
      suffix_links.push_back(scaled(cores, scales, k).permute({1, 3, 2, 0}).contiguous());
    prefix_products = chain_products(prefix_links, lookup.prefix);
    suffix_products = chain_products(suffix_links, lookup.suffix);
    prefix = prefix_products.back();
    const Tensor& reversed = suffix_products.back();
    suffix = reversed.view(reversed_sizes())
                 .permute(reversing())
                 .reshape({reversed.size(0), reversed.size(2), reversed.size(1)})
                 .contiguous();  // of a single core, reshape gives a view
  }

  /// Gradients of the scaled cores from those of prefix and suffix.
  Tensors core_gradients(const Tensor& of_prefix, const Tensor& of_suffix) const {
    // The permutation that reverses the columns is its own inverse.
    std::vector<std::int64_t> sizes{of_suffix.size(0), of_suffix.size(1)};
    for (auto link = suffix_links.rbegin(); link != suffix_links.rend(); ++link)
      sizes.push_back(link->size(2));
    const auto reversed = of_suffix.view(sizes).permute(reversing()).reshape(suffix_products.back().sizes());
    Tensors result;
    for (const auto& link : chain_gradients(of_prefix, prefix_links, prefix_products, lookup.prefix))
      result.push_back(link.permute({1, 0, 2, 3}));
    const auto mirrored = chain_gradients(reversed, suffix_links, suffix_products, lookup.suffix);
    for (auto link = mirrored.rbegin(); link != mirrored.rend(); ++link)
      result.push_back(link->permute({3, 0, 2, 1}));
    return result;
  }

 private:
  // [entries, n_K, .., n_{h+1}, r] of the suffix chain's last level.
  std::vector<std::int64_t> reversed_sizes() const {
    std::vector<std::int64_t> sizes{suffix_products.back().size(0)};
    for (const Tensor& link : suffix_links) sizes.push_back(link.size(2));
    sizes.push_back(suffix_products.back().size(2));
    return sizes;
  }
  // To [entries, r, n_{h+1}, .., n_K], and back.
  std::vector<std::int64_t> reversing() const {
    std::vector<std::int64_t> order{0};
    for (std::int64_t d = suffix_links.size() + 1; d >= 1; --d) order.push_back(d);
    return order;
  }
};

// The products of distinct rows, block by block. A block's rows share their suffix: they are one matrix
// product.
template <class T>
class Blocks {
 public:
  explicit Blocks(const Sides& sides)
      : lookup_(sides.lookup),
        tokens_(members_of(lookup_.row_of, lookup_.rows)),
        left_(sides.prefix.size(1)),
        rank_(sides.prefix.size(2)),
        right_(sides.suffix.size(2)),
        prefix_(sides.prefix.const_data_ptr<T>()),
        suffix_(sides.suffix.const_data_ptr<T>()) {
    std::int64_t most = 0;
    for (const Block& block : lookup_.blocks) most = std::max(most, block.end - block.begin);
    for (std::int64_t thread = 0; thread < threads_for(lookup_.blocks.size()); ++thread)
      workspaces_.push_back({std::vector<T>(most * left_ * rank_), std::vector<T>(most * left_ * right_)});
  }

  /// Every token's row to y [tokens, N * N'].
  void rows(T* y) {
    const std::int64_t columns = left_ * right_;
    for_each_task(lookup_.blocks.size(), [&](std::int64_t thread, std::int64_t b) {
      const Block& block = lookup_.blocks[b];
      auto& [prefixes, rows] = workspaces_[thread];
      gather(block, prefixes.data());
      gemm((block.end - block.begin) * left_, right_, rank_, T{1}, {prefixes.data(), rank_}, suffix_of(block),
           T{0}, rows.data(), right_);
      const T* row = rows.data();
      for (std::int64_t r = block.begin; r < block.end; ++r, row += columns)
        for (std::int64_t i = tokens_.starts[r]; i < tokens_.starts[r + 1]; ++i)
          std::copy_n(row, columns, y + tokens_.entries[i] * columns);
    });
  }

  /// From dy [tokens, N * N']: the gradient of each distinct row's prefix [rows, N, r], and of each block's
  /// suffix [blocks, r, N'].
  void gradients(const T* dy, T* of_prefixes, T* of_suffixes) {
    const std::int64_t columns = left_ * right_;
    for_each_task(lookup_.blocks.size(), [&](std::int64_t thread, std::int64_t b) {
      const Block& block = lookup_.blocks[b];
      auto& [prefixes, rows] = workspaces_[thread];
      for (std::int64_t r = block.begin; r < block.end; ++r)
        sum_place(dy, columns, tokens_, r, rows.data() + (r - block.begin) * columns);
      gather(block, prefixes.data());
      const std::int64_t count = (block.end - block.begin) * left_;
      const MatrixView<T> gradient{rows.data(), right_};
      MatrixView<T> suffix = suffix_of(block), prefix{prefixes.data(), rank_};
      suffix.transposed = prefix.transposed = true;
      gemm(count, rank_, right_, T{1}, gradient, suffix, T{0}, of_prefixes + block.begin * left_ * rank_,
           rank_);
      gemm(rank_, right_, count, T{1}, prefix, gradient, T{0}, of_suffixes + b * rank_ * right_, right_);
    });
  }

 private:
  struct Workspace {
    std::vector<T> prefixes, rows;  // of one block: [rows, N, r] and [rows, N, N']
  };

  MatrixView<T> suffix_of(const Block& block) const {
    return {suffix_ + block.suffix * rank_ * right_, right_};
  }

  void gather(const Block& block, T* to) const {
    const std::int64_t size = left_ * rank_;
    for (std::int64_t row = block.begin; row < block.end; ++row, to += size)
      std::copy_n(prefix_ + lookup_.prefix.place[row] * size, size, to);
  }

  const Lookup& lookup_;
  const Members tokens_;
  std::int64_t left_, rank_, right_;
  const T *prefix_, *suffix_;
  std::vector<Workspace> workspaces_;  // one a thread
};

bool switched_off(TensorList scales) {
  return std::any_of(scales.begin(), scales.end(), [](const Tensor& scale) { return scale.numel() == 0; });
}

}  // namespace

Tensor forward(const Tensor& indices, TensorList cores, TensorList scales) {
  auto y = forward_meta(indices, cores);
  if (switched_off(scales)) return y.zero_();
  const Sides sides(indices, cores, scales);
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "ttm_embedding",
                             [&] { Blocks<scalar_t>(sides).rows(y.mutable_data_ptr<scalar_t>()); });
  return y;
}

std::vector<Tensor> backward(const Tensor& dy, const Tensor& indices, TensorList cores, TensorList scales,
                             std::array<bool, 2> needed) {
  if (switched_off(scales)) {
    Tensors zeros = backward_meta(dy, indices, cores, scales, needed);
    for (Tensor& zero : zeros) zero.zero_();
    return zeros;
  }
  const Sides sides(indices, cores, scales);
  const Lookup& lookup = sides.lookup;
  const std::int64_t left = sides.prefix.size(1), rank = sides.prefix.size(2), right = sides.suffix.size(2);
  const std::int64_t blocks = lookup.blocks.size();
  const auto gradient = dy.contiguous();
  const auto of_prefixes = gradient.new_empty({lookup.rows, left, rank});
  const auto of_suffixes = gradient.new_empty({blocks, rank, right});
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "ttm_embedding_backward", [&] {
    Blocks<scalar_t>(sides).gradients(gradient.const_data_ptr<scalar_t>(),
                                      of_prefixes.mutable_data_ptr<scalar_t>(),
                                      of_suffixes.mutable_data_ptr<scalar_t>());
  });
  Integers suffix_of_block;
  for (const Block& block : lookup.blocks) suffix_of_block.push_back(block.suffix);
  Tensors core_gradients =
      sides.core_gradients(sum_members(of_prefixes, members_of(lookup.prefix.place, sides.prefix.size(0))),
                           sum_members(of_suffixes, members_of(suffix_of_block, sides.suffix.size(0))));

  Tensors scale_gradients(needed[1] ? scales.size() : 0);
  run_tasks(cores.size(), true, [&](std::int64_t k) {
    Tensor& gradient = core_gradients[k];
    gradient = gradient.contiguous();
    if (k == static_cast<std::int64_t>(scales.size())) return;
    if (needed[1]) scale_gradients[k] = (gradient * cores[k]).sum(torch::IntArrayRef{0, 1, 2});
    gradient = gradient * scales[k];
  });
  if (!needed[0]) return scale_gradients;
  core_gradients.insert(core_gradients.end(), scale_gradients.begin(), scale_gradients.end());
  return core_gradients;
}

Tensor forward_meta(const Tensor& indices, TensorList cores) {
  auto sizes = indices.sizes().vec();
  sizes.push_back(1);
  for (const Tensor& core : cores) sizes.back() *= core.size(2);
  return cores[0].new_empty(sizes);
}

std::vector<Tensor> backward_meta(const Tensor&, const Tensor&, TensorList cores, TensorList scales,
                                  std::array<bool, 2> needed) {
  Tensors result;
  const auto add = [&](TensorList tensors) {
    for (const Tensor& tensor : tensors) result.push_back(tensor.new_empty(tensor.sizes()));
  };
  if (needed[0]) add(cores);
  if (needed[1]) add(scales);
  return result;
}

}  // namespace comera::ops::ttm_products
