#include "ttm_embedding/products.h"

#include "tasks.h"
#include "ttm_embedding/chain_products.h"
#include "ttm_embedding/lookup.h"

#include <comera/kernels/small_product.h>

#include <algorithm>
#include <utility>

namespace comera::ops::ttm_products {
namespace {

using kernels::SmallProduct;
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
    suffix = turned(suffix_products.back(), /*back=*/false);
  }

  /// The suffixes as [entries, N', r].
  Tensor mirrored_suffix() const {
    const Integers order = reversed_columns();
    return suffix_products.back().index_select(1, torch::tensor(order));
  }

  /// Gradients of the scaled cores from those of prefix and suffix.
  Tensors core_gradients(const Tensor& of_prefix, const Tensor& of_suffix) const {
    Tensors result;
    for (const auto& link : chain_gradients(of_prefix, prefix_links, prefix_products, lookup.prefix))
      result.push_back(link.permute({1, 0, 2, 3}));
    const auto mirrored =
        chain_gradients(turned(of_suffix, /*back=*/true), suffix_links, suffix_products, lookup.suffix);
    for (auto link = mirrored.rbegin(); link != mirrored.rend(); ++link)
      result.push_back(link->permute({3, 0, 2, 1}));
    return result;
  }

 private:
  // The chain starts at the last core: column (c_{h+1}, .., c_K) of a row lies at (c_K, .., c_{h+1}) in it.
  Integers reversed_columns() const {
    Integers order{0};
    std::int64_t weight = 1;
    for (auto link = suffix_links.rbegin(); link != suffix_links.rend(); ++link) {
      const Integers before = std::exchange(order, {});
      for (const std::int64_t place : before)
        for (std::int64_t column = 0; column < link->size(2); ++column)
          order.push_back(place + column * weight);
      weight *= link->size(2);
    }
    return order;
  }

  // The last level [entries, N' reversed, r] as [entries, r, N'], or back.
  Tensor turned(const Tensor& matrices, bool back) const {
    const Integers order = reversed_columns();
    const std::int64_t columns = order.size(), rank = matrices.size(back ? 1 : 2);
    const auto result = matrices.new_empty({matrices.size(0), back ? columns : rank, back ? rank : columns});
    AT_DISPATCH_FLOATING_TYPES(matrices.scalar_type(), "turned", [&] {
      const auto* from = matrices.const_data_ptr<scalar_t>();
      auto* to = result.mutable_data_ptr<scalar_t>();
      run_tasks(matrices.size(0), true, [&](std::int64_t entry) {
        const std::int64_t begin = entry * rank * columns;
        for (std::int64_t c = 0; c < columns; ++c)
          for (std::int64_t q = 0; q < rank; ++q) {
            const std::int64_t row_major = begin + q * columns + c, in_chain = begin + order[c] * rank + q;
            back ? to[in_chain] = from[row_major] : to[row_major] = from[in_chain];
          }
      });
    });
    return result;
  }
};

// sum [width] = the rows that are members of `place`, added in order.
template <class T>
void sum_place(const T* rows, std::int64_t width, const Members& members, std::int64_t place, T* sum) {
  std::int64_t i = members.starts[place];
  const std::int64_t end = members.starts[place + 1];
  if (i == end) {
    std::fill_n(sum, width, T{0});
    return;
  }
  std::copy_n(rows + members.entries[i] * width, width, sum);
  for (++i; i < end; ++i) {
    const T* row = rows + members.entries[i] * width;
    for (std::int64_t c = 0; c < width; ++c) sum[c] += row[c];
  }
}

// The distinct rows: row r [N, N'] is the product of its prefix [N, r] and its suffix [r, N'].
template <class T>
class Rows {
 public:
  explicit Rows(const Sides& sides)
      : lookup_(sides.lookup),
        tokens_(members_of(lookup_.row_of, lookup_.rows)),
        left_(sides.prefix.size(1)),
        rank_(sides.prefix.size(2)),
        right_(sides.suffix.size(2)),
        prefix_(sides.prefix.const_data_ptr<T>()),
        suffix_(sides.suffix.const_data_ptr<T>()) {}

  /// Every token's row to y [tokens, N * N'].
  void values(T* y) const {
    for_each_task(lookup_.blocks.size(), [&](std::int64_t, std::int64_t b) {
      const Block& block = lookup_.blocks[b];
      const std::int64_t columns = left_ * right_;
      for (std::int64_t row = block.begin; row < block.end; ++row) {
        std::int64_t i = tokens_.starts[row];
        T* first = y + tokens_.entries[i] * columns;
        kernels::small_product(SmallProduct<T>{left_, right_, rank_, prefix_of(row), rank_, 1,
                                               suffix_ + block.suffix * rank_ * right_, right_, first, right_,
                                               false});
        while (++i < tokens_.starts[row + 1]) std::copy_n(first, columns, y + tokens_.entries[i] * columns);
      }
    });
  }

  /// From dy [tokens, N * N'] the gradients of every block's suffix [blocks, r, N'], and of every prefix
  /// [prefixes, N, r]. mirrored: the suffixes [suffixes, N', r].
  void gradients(const T* dy, const T* mirrored, T* of_suffixes, T* of_prefixes) const {
    const Gradients gradients(*this, dy);
    for_each_task(lookup_.blocks.size(), [&](std::int64_t, std::int64_t b) {
      const Block& block = lookup_.blocks[b];
      for (std::int64_t row = block.begin; row < block.end; ++row)
        kernels::small_product(SmallProduct<T>{rank_, right_, left_, prefix_of(row), 1, rank_,
                                               gradients.row[row], right_, of_suffixes + b * rank_ * right_,
                                               right_, row > block.begin});
    });
    const Integers& places = lookup_.prefix.place;
    const Members rows = members_of(places, lookup_.prefix.levels.back().entries());
    for_each_task(rows.places(), [&](std::int64_t, std::int64_t place) {
      T* sum = of_prefixes + place * left_ * rank_;
      if (rows.starts[place] == rows.starts[place + 1]) std::fill_n(sum, left_ * rank_, T{0});
      for (std::int64_t i = rows.starts[place]; i < rows.starts[place + 1]; ++i) {
        const std::int64_t row = rows.entries[i];
        kernels::small_product(SmallProduct<T>{left_, rank_, right_, gradients.row[row], right_, 1,
                                               mirrored + lookup_.suffix.place[row] * right_ * rank_, rank_,
                                               sum, rank_, i > rows.starts[place]});
      }
    });
  }

 private:
  // Each row's gradient: its token's, or the sum of its tokens' in order.
  struct Gradients {
    std::vector<const T*> row;
    std::vector<T> sums;

    Gradients(const Rows& of, const T* dy) : row(of.lookup_.rows) {
      const std::int64_t columns = of.left_ * of.right_;
      const Members& tokens = of.tokens_;
      Integers shared;
      for (std::int64_t r = 0; r < of.lookup_.rows; ++r) {
        row[r] = dy + tokens.entries[tokens.starts[r]] * columns;
        if (tokens.starts[r + 1] - tokens.starts[r] > 1) shared.push_back(r);
      }
      sums.resize(shared.size() * columns);
      run_tasks(shared.size(), true, [&](std::int64_t place) {
        T* sum = sums.data() + place * columns;
        const std::int64_t r = shared[place];
        sum_place(dy, columns, tokens, r, sum);
        row[r] = sum;
      });
    }
  };

  const T* prefix_of(std::int64_t row) const { return prefix_ + lookup_.prefix.place[row] * left_ * rank_; }

  const Lookup& lookup_;
  const Members tokens_;
  std::int64_t left_, rank_, right_;
  const T *prefix_, *suffix_;
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
                             [&] { Rows<scalar_t>(sides).values(y.mutable_data_ptr<scalar_t>()); });
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
  Integers suffix_of_block;
  for (const Block& block : lookup.blocks) suffix_of_block.push_back(block.suffix);
  const auto gradient = dy.contiguous();
  const auto of_prefixes = at::empty_like(sides.prefix), of_suffixes = at::empty_like(sides.suffix);
  const auto of_blocks = gradient.new_empty(
      {static_cast<std::int64_t>(lookup.blocks.size()), sides.suffix.size(1), sides.suffix.size(2)});
  const auto mirrored = sides.mirrored_suffix();
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "ttm_embedding_backward", [&] {
    Rows<scalar_t>(sides).gradients(gradient.const_data_ptr<scalar_t>(), mirrored.const_data_ptr<scalar_t>(),
                                    of_blocks.mutable_data_ptr<scalar_t>(),
                                    of_prefixes.mutable_data_ptr<scalar_t>());
    const Members blocks = members_of(suffix_of_block, sides.suffix.size(0));
    const std::int64_t width = of_blocks.size(1) * of_blocks.size(2);
    run_tasks(blocks.places(), true, [&](std::int64_t suffix) {
      sum_place(of_blocks.const_data_ptr<scalar_t>(), width, blocks, suffix,
                of_suffixes.mutable_data_ptr<scalar_t>() + suffix * width);
    });
  });
  Tensors core_gradients = sides.core_gradients(of_prefixes, of_suffixes);

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
