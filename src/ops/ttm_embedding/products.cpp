#include "ttm_embedding/products.h"

#include "tasks.h"
#include "ttm_embedding/chain_products.h"
#include "ttm_embedding/lookup.h"

#include <algorithm>
#include <cstring>

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
                 .reshape({reversed.size(0), reversed.size(2), reversed.size(1)});
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

// Prefixes of the rows of a block, one below the other: [rows * N, r].
Tensor gather_prefixes(const Sides& sides, const Block& block, const Tensor& scratch) {
  const std::size_t bytes = sides.prefix.size(1) * sides.prefix.size(2) * sides.prefix.element_size();
  const auto* from = static_cast<const char*>(sides.prefix.const_data_ptr());
  auto* to = static_cast<char*>(scratch.mutable_data_ptr());
  for (std::int64_t row = block.begin; row < block.end && bytes > 0; ++row, to += bytes)
    std::memcpy(to, from + sides.lookup.prefix.place[row] * bytes, bytes);
  return scratch.narrow(0, 0, (block.end - block.begin) * sides.prefix.size(1));
}

std::int64_t largest_block(const Lookup& lookup) {
  std::int64_t rows = 0;
  for (const Block& block : lookup.blocks) rows = std::max(rows, block.end - block.begin);
  return rows;
}

}  // namespace

Tensor forward(const Tensor& indices, TensorList cores, TensorList scales) {
  const Sides sides(indices, cores, scales);
  const Lookup& lookup = sides.lookup;
  const std::int64_t left = sides.prefix.size(1), rank = sides.prefix.size(2), right = sides.suffix.size(2);
  auto sizes = indices.sizes().vec();
  sizes.push_back(left * right);
  auto y = sides.prefix.new_empty(sizes);

  const Members tokens = members_of(lookup.row_of, lookup.rows);
  const std::size_t bytes = left * right * y.element_size();
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  const std::int64_t most = largest_block(lookup);
  run_ranges(lookup.blocks.size(), true, [&](std::int64_t begin, std::int64_t end) {
    const auto prefixes = y.new_empty({most * left, rank}), rows = y.new_empty({most * left, right});
    for (std::int64_t b = begin; b < end; ++b) {
      const Block& block = lookup.blocks[b];
      auto product = rows.narrow(0, 0, (block.end - block.begin) * left);
      at::mm_out(product, gather_prefixes(sides, block, prefixes), sides.suffix[block.suffix]);
      const auto* from = static_cast<const char*>(product.const_data_ptr());
      for (std::int64_t row = block.begin; row < block.end; ++row, from += bytes)
        for (std::int64_t i = tokens.starts[row]; i < tokens.starts[row + 1]; ++i)
          std::memcpy(to + tokens.entries[i] * bytes, from, bytes);
    }
  });
  return y;
}

std::vector<Tensor> backward(const Tensor& dy, const Tensor& indices, TensorList cores, TensorList scales,
                             std::array<bool, 2> needed) {
  const Sides sides(indices, cores, scales);
  const Lookup& lookup = sides.lookup;
  const std::int64_t left = sides.prefix.size(1), rank = sides.prefix.size(2), right = sides.suffix.size(2);
  const std::int64_t blocks = lookup.blocks.size(), most = largest_block(lookup);

  const auto of_rows = sum_members(dy.contiguous().view({indices.numel(), left, right}),
                                   members_of(lookup.row_of, lookup.rows));
  const auto prefix_of_rows = of_rows.new_empty({lookup.rows, left, rank});
  const auto suffix_of_blocks = of_rows.new_empty({blocks, rank, right});
  Integers suffix_of_block(blocks);
  run_ranges(blocks, true, [&](std::int64_t begin, std::int64_t end) {
    const auto prefixes = of_rows.new_empty({most * left, rank});
    for (std::int64_t b = begin; b < end; ++b) {
      const Block& block = lookup.blocks[b];
      const std::int64_t rows = block.end - block.begin;
      suffix_of_block[b] = block.suffix;
      const auto gradient = of_rows.narrow(0, block.begin, rows).view({rows * left, right});
      auto of_prefixes = prefix_of_rows.narrow(0, block.begin, rows).view({rows * left, rank});
      at::mm_out(of_prefixes, gradient, sides.suffix[block.suffix].t());
      auto of_suffix = suffix_of_blocks[b];
      at::mm_out(of_suffix, gather_prefixes(sides, block, prefixes).t(), gradient);
    }
  });
  const auto of_prefix = sum_members(prefix_of_rows, members_of(lookup.prefix.place, sides.prefix.size(0)));
  const auto of_suffix = sum_members(suffix_of_blocks, members_of(suffix_of_block, sides.suffix.size(0)));

  Tensors core_gradients = sides.core_gradients(of_prefix, of_suffix), scale_gradients;
  for (std::size_t k = 0; k < scales.size(); ++k) {
    if (needed[1]) scale_gradients.push_back((core_gradients[k] * cores[k]).sum(torch::IntArrayRef{0, 1, 2}));
    core_gradients[k] = core_gradients[k] * scales[k];
  }
  for (auto& gradient : core_gradients) gradient = gradient.contiguous();
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
