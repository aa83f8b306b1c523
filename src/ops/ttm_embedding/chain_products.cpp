#include "ttm_embedding/chain_products.h"

#include "tasks.h"

namespace comera::ops::ttm {
namespace {

using torch::Tensor;

// One digit's share of a level: its entries are the products of their parents with the digit's slice of the
// link.
struct Share {
  std::int64_t begin, count;
  Tensor parents;  // [count * N, r]
  Tensor slice;    // [r, n * r']

  Share(const Tensor& below, const Level& level, const Tensor& link, std::int64_t digit)
      : begin(level.starts[digit]), count(level.starts[digit + 1] - begin) {
    // A digit that extends every entry below extends them in order.
    parents = count == below.size(0) ? below : below.index_select(0, places(level));
    parents = parents.view({count * below.size(1), below.size(2)});
    slice = link[digit].view({link.size(1), link.size(2) * link.size(3)});
  }
  /// The rows of this digit in a tensor [entries, N, width].
  Tensor rows_in(const Tensor& entries) const {
    return entries.narrow(0, begin, count).view({count * entries.size(1), entries.size(2)});
  }

 private:
  Tensor places(const Level& level) const {
    auto* first = const_cast<std::int64_t*>(level.parents.data()) + begin;  // only read
    return torch::from_blob(first, {count}, torch::kInt64);
  }
};

}  // namespace

Tensor sum_members(const Tensor& values, const Members& members) {
  auto sizes = values.sizes().vec();
  sizes[0] = members.places();
  auto sums = values.new_empty(sizes);
  const std::int64_t width = c10::multiply_integers(values.sizes().slice(1));
  if (width == 0) return sums;
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "sum_members", [&] {
    const auto* from = values.const_data_ptr<scalar_t>();
    auto* to = sums.mutable_data_ptr<scalar_t>();
    run_tasks(members.places(), true,
              [&](std::int64_t place) { sum_place(from, width, members, place, to + place * width); });
  });
  return sums;
}

Tensors chain_products(const Tensors& links, const Chain& chain) {
  // With r_0 = 1 the first core is its own table.
  Tensors products{links[0].view({links[0].size(0), links[0].size(2), links[0].size(3)})};
  for (std::size_t j = 1; j < links.size(); ++j) {
    const Level& level = chain.levels[j];
    const Tensor &link = links[j], below = products.back();
    const auto product = link.new_empty({level.entries(), below.size(1), link.size(2) * link.size(3)});
    run_tasks(link.size(0), true, [&](std::int64_t digit) {
      const Share share(below, level, link, digit);
      auto rows = share.rows_in(product);
      at::mm_out(rows, share.parents, share.slice);
    });
    products.push_back(product.view({level.entries(), below.size(1) * link.size(2), link.size(3)}));
  }
  return products;
}

Tensors chain_gradients(Tensor gradient, const Tensors& links, const Tensors& products, const Chain& chain) {
  Tensors result(links.size());
  for (std::size_t j = links.size() - 1; j > 0; --j) {
    const Level& level = chain.levels[j];
    const Tensor &link = links[j], below = products[j - 1];
    gradient = gradient.view({level.entries(), below.size(1), link.size(2) * link.size(3)});
    const auto to_parents = gradient.new_empty({level.entries(), below.size(1), below.size(2)});
    result[j] = at::empty_like(link);
    run_tasks(link.size(0), true, [&](std::int64_t digit) {
      const Share share(below, level, link, digit);
      const auto rows = share.rows_in(gradient);
      auto of_slice = result[j][digit].view(share.slice.sizes());
      at::mm_out(of_slice, share.parents.t(), rows);
      auto of_parents = share.rows_in(to_parents);
      at::mm_out(of_parents, rows, share.slice.t());
    });
    gradient = sum_members(to_parents, members_of(level.parents, below.size(0)));
  }
  result[0] = gradient.view(links[0].sizes());
  return result;
}

}  // namespace comera::ops::ttm
