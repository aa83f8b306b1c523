#include <comera/base/error.h>
#include <comera/ops/parallel.h>
#include <comera/ops/product.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace comera::ops {
namespace {

constexpr std::int64_t kTile = 32;        // of a transposition: both sides stay in the first cache
constexpr std::int64_t kGrain = 1 << 15;  // elements that are worth a thread's start
constexpr std::int64_t kShortRun = 16;    // elements for which memcpy is not worth its call

struct Dimension {
  std::int64_t size = 1;
  std::int64_t from = 0, to = 0;  // strides
};

// Dimensions in the order of `to`, those of size 1 left out, neighbours on both sides merged.
std::vector<Dimension> walk_of(const std::vector<std::int64_t>& sizes, const std::vector<int>& order) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::vector<Dimension> walk;
  for (const int place : order) {
    const Dimension one{sizes[place], strides[place]};
    if (one.size == 1) continue;
    if (!walk.empty() && walk.back().from == one.from * one.size)
      walk.back() = {walk.back().size * one.size, one.from};
    else
      walk.push_back(one);
  }
  std::int64_t stride = 1;
  for (auto dimension = walk.rbegin(); dimension != walk.rend(); ++dimension) {
    dimension->to = stride;
    stride *= dimension->size;
  }
  return walk;
}

// Offsets of position `at` of the dimensions, the last fastest.
std::pair<std::int64_t, std::int64_t> offsets(const std::vector<Dimension>& outer, std::int64_t at) {
  std::int64_t from = 0, to = 0;
  for (auto dimension = outer.rbegin(); dimension != outer.rend(); ++dimension) {
    const std::int64_t here = at % dimension->size;
    at /= dimension->size;
    from += here * dimension->from;
    to += here * dimension->to;
  }
  return {from, to};
}

std::int64_t count_of(const std::vector<Dimension>& outer) {
  std::int64_t count = 1;
  for (const Dimension& dimension : outer) count *= dimension.size;
  return count;
}

// Runs of elements that lie together on both sides.
template <class T>
void copy_runs(T* to, const T* from, std::vector<Dimension> outer, std::int64_t run) {
  Dimension inner;  // the innermost loop over runs
  if (!outer.empty()) inner = outer.back(), outer.pop_back();
  parallel_ranges(count_of(outer), std::max<std::int64_t>(1, kGrain / (run * inner.size)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t at = begin; at < end; ++at) {
                      const auto [from_start, to_start] = offsets(outer, at);
                      for (std::int64_t i = 0; i < inner.size; ++i) {
                        const T* source = from + from_start + i * inner.from;
                        T* target = to + to_start + i * inner.to;
                        if (run <= kShortRun)
                          for (std::int64_t j = 0; j < run; ++j) target[j] = source[j];
                        else
                          std::memcpy(target, source, run * sizeof(T));
                      }
                    }
                  });
}

// `rows` lie together in `from`, `cols` in `to`.
template <class T>
void transpose(T* to, const T* from, const std::vector<Dimension>& outer, Dimension rows, Dimension cols) {
  const std::int64_t strips = (rows.size + kTile - 1) / kTile;
  const std::int64_t strip = std::min(rows.size, kTile) * cols.size;
  parallel_ranges(count_of(outer) * strips, std::max<std::int64_t>(1, kGrain / strip),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t at = begin; at < end; ++at) {
                      const auto [from_start, to_start] = offsets(outer, at / strips);
                      const std::int64_t row = at % strips * kTile,
                                         row_end = std::min(row + kTile, rows.size);
                      for (std::int64_t col = 0; col < cols.size; col += kTile) {
                        const std::int64_t col_end = std::min(col + kTile, cols.size);
                        for (std::int64_t i = row; i < row_end; ++i)
                          for (std::int64_t j = col; j < col_end; ++j)
                            to[to_start + i * rows.to + j] = from[from_start + i + j * cols.from];
                      }
                    }
                  });
}

template <class T>
void copy(void* to_memory, const void* from_memory, std::vector<Dimension> walk) {
  T* to = static_cast<T*>(to_memory);
  const T* from = static_cast<const T*>(from_memory);
  if (walk.empty()) {
    *to = *from;
    return;
  }
  const Dimension last = walk.back();
  walk.pop_back();
  if (last.from == 1) return copy_runs(to, from, std::move(walk), last.size);
  const auto rows = std::find_if(walk.begin(), walk.end(), [](const Dimension& d) { return d.from == 1; });
  const Dimension together = *rows;
  walk.erase(rows);
  transpose(to, from, walk, together, last);
}

}  // namespace

void permuting_copy(const torch::Tensor& to, const torch::Tensor& from,
                    const std::vector<std::int64_t>& sizes, const std::vector<int>& order) {
  check(from.is_contiguous() && to.is_contiguous() && from.numel() == to.numel() &&
            from.scalar_type() == to.scalar_type(),
        "[permuting_copy] needs two contiguous tensors of one type and size");
  if (from.numel() == 0) return;
  if (from.is_cpu()) {
    const auto walk = walk_of(sizes, order);
    switch (from.element_size()) {
      case 2:
        return copy<std::uint16_t>(to.mutable_data_ptr(), from.const_data_ptr(), walk);
      case 4:
        return copy<std::uint32_t>(to.mutable_data_ptr(), from.const_data_ptr(), walk);
      case 8:
        return copy<std::uint64_t>(to.mutable_data_ptr(), from.const_data_ptr(), walk);
    }
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<std::int64_t> places(order.begin(), order.end()), target;
  for (const int place : order) target.push_back(sizes[place]);
  to.view(target).copy_(from.view(sizes).permute(places));
}

}  // namespace comera::ops
