#include "ttm_embedding/chain_products.h"

#include "tasks.h"

#include <comera/kernels/small_product.h>

namespace comera::ops::ttm {
namespace {

using torch::Tensor;

// One level of a chain: entry e is the product of its parent's matrix [N, r] with its digit's slice of the
// link [r, w], w = n * r'.
template <class T>
class LevelProducts {
 public:
  LevelProducts(const Tensor& below, const Level& level, const Tensor& link)
      : level_(level),
        parents_(below.const_data_ptr<T>()),
        slices_(link.const_data_ptr<T>()),
        digits_(link.size(0)),
        parent_count_(below.size(0)),
        rows_(below.size(1)),
        rank_(below.size(2)),
        width_(link.size(2) * link.size(3)) {}

  /// entries [entries, N, w].
  void products(T* entries) const {
    run_tasks(digits_, true, [&](std::int64_t digit) {
      const Parents parents(*this, digit);
      kernels::small_product(kernels::SmallProduct<T>{
          parents.count * rows_, width_, rank_, parents.values, rank_, 1, slices_ + digit * rank_ * width_,
          width_, entries + level_.starts[digit] * rows_ * width_, width_, false});
    });
  }

  /// From the gradient of the entries that of the link.
  void link_gradient(const T* gradient, T* of_link) const {
    run_tasks(digits_, true, [&](std::int64_t digit) {
      const Parents parents(*this, digit);
      kernels::small_product(kernels::SmallProduct<T>{rank_, width_, parents.count * rows_, parents.values, 1,
                                                      rank_, gradient + level_.starts[digit] * rows_ * width_,
                                                      width_, of_link + digit * rank_ * width_, width_,
                                                      false});
    });
  }

  /// And that of the parents [parents, N, r], each summed over its children in order. mirrored [m, w, r].
  void parent_gradients(const T* gradient, const T* mirrored, T* of_parents) const {
    const Members children = members_of(level_.parents, parent_count_);
    Integers digit_of(level_.entries());
    for (std::int64_t digit = 0; digit < digits_; ++digit)
      std::fill(digit_of.begin() + level_.starts[digit], digit_of.begin() + level_.starts[digit + 1], digit);
    run_tasks(parent_count_, true, [&](std::int64_t parent) {
      T* sum = of_parents + parent * rows_ * rank_;
      if (children.starts[parent] == children.starts[parent + 1]) std::fill_n(sum, rows_ * rank_, T{0});
      for (std::int64_t i = children.starts[parent]; i < children.starts[parent + 1]; ++i) {
        const std::int64_t child = children.entries[i];
        kernels::small_product(kernels::SmallProduct<T>{
            rows_, rank_, width_, gradient + child * rows_ * width_, width_, 1,
            mirrored + digit_of[child] * width_ * rank_, rank_, sum, rank_, i > children.starts[parent]});
      }
    });
  }

 private:
  // The matrices of a digit's parents, one below the other.
  struct Parents {
    std::int64_t count;
    const T* values;
    std::vector<T> copy;

    Parents(const LevelProducts& of, std::int64_t digit)
        : count(of.level_.starts[digit + 1] - of.level_.starts[digit]), values(of.parents_) {
      if (count == of.parent_count_) return;  // a digit that extends every entry below extends them in order
      const std::int64_t size = of.rows_ * of.rank_;
      copy.resize(count * size);
      for (std::int64_t i = 0; i < count; ++i)
        std::copy_n(of.parents_ + of.level_.parents[of.level_.starts[digit] + i] * size, size,
                    copy.data() + i * size);
      values = copy.data();
    }
  };

  const Level& level_;
  const T *parents_, *slices_;
  std::int64_t digits_, parent_count_, rows_, rank_, width_;
};

}  // namespace

Tensors chain_products(const Tensors& links, const Chain& chain) {
  // With r_0 = 1 the first core is its own table.
  Tensors products{links[0].view({links[0].size(0), links[0].size(2), links[0].size(3)})};
  for (std::size_t j = 1; j < links.size(); ++j) {
    const Tensor &link = links[j], below = products.back();
    const auto product =
        link.new_empty({chain.levels[j].entries(), below.size(1) * link.size(2), link.size(3)});
    AT_DISPATCH_FLOATING_TYPES(link.scalar_type(), "chain_products", [&] {
      LevelProducts<scalar_t>(below, chain.levels[j], link).products(product.mutable_data_ptr<scalar_t>());
    });
    products.push_back(product);
  }
  return products;
}

Tensors chain_gradients(const Tensor& of_last, const Tensors& links, const Tensors& products,
                        const Chain& chain) {
  Tensors result(links.size());
  Tensor gradient = of_last.contiguous();
  for (std::size_t j = links.size() - 1; j > 0; --j) {
    const Tensor &link = links[j], below = products[j - 1];
    result[j] = at::empty_like(link);
    const auto of_below = at::empty_like(below);
    const auto mirrored = link.view({link.size(0), link.size(1), -1}).transpose(1, 2).contiguous();
    AT_DISPATCH_FLOATING_TYPES(link.scalar_type(), "chain_gradients", [&] {
      const LevelProducts<scalar_t> level(below, chain.levels[j], link);
      const auto* of_entries = gradient.const_data_ptr<scalar_t>();
      level.link_gradient(of_entries, result[j].mutable_data_ptr<scalar_t>());
      level.parent_gradients(of_entries, mirrored.const_data_ptr<scalar_t>(),
                             of_below.mutable_data_ptr<scalar_t>());
    });
    gradient = of_below;
  }
  result[0] = gradient.view(links[0].sizes());
  return result;
}

}  // namespace comera::ops::ttm
