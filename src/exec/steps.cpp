#include "steps.h"

#include <comera/ops/product.h>

#include <bit>

namespace comera::exec {
namespace {

using plan::Indices;

// Calls visit(index) for each index of the set, in ascending order.
template <class Visit>
void for_each_index(Indices set, Visit visit) {
  for (; set != 0; set &= set - 1) visit(std::countr_zero(set));
}

// The places of the groups' indices among those of `tensor`, one group after the other.
std::vector<int> order_of(Indices tensor, std::initializer_list<Indices> groups) {
  std::vector<int> order;
  for (const Indices group : groups)
    for_each_index(tensor & group,
                   [&](int i) { order.push_back(std::popcount(tensor & ((Indices{1} << i) - 1))); });
  return order;
}

}  // namespace

Steps::Steps(const plan::Plan& plan, std::int64_t tokens)
    : plan_(plan), tokens_(tokens), values_(plan.tensors.size()) {}

// Index 0 is the tokens.
std::vector<std::int64_t> Steps::sizes(Indices set) const {
  std::vector<std::int64_t> result;
  for_each_index(set, [&](int i) { result.push_back(i == 0 ? tokens_ : plan_.network.indices[i].size); });
  return result;
}

std::int64_t Steps::elements(Indices set) const {
  std::int64_t product = 1;
  for_each_index(set, [&](int i) { product *= i == 0 ? tokens_ : plan_.network.indices[i].size; });
  return product;
}

std::int64_t Steps::stride(Indices tensor, Indices group) const {
  const Indices own = tensor & group;
  if (elements(own) == 1) return 0;
  // What lies behind the last index of the group that is larger than 1.
  Indices last = 0;
  for_each_index(own, [&](int i) {
    if (i == 0 ? tokens_ > 1 : plan_.network.indices[i].size > 1) last = Indices{1} << i;
  });
  return elements(tensor & ~((last << 1) - 1));
}

std::int64_t Steps::multiply_adds(const plan::Step& step) const {
  return elements(step.batch) * elements(step.m) * elements(step.k) * elements(step.n);
}

void Steps::run(const plan::Step& step) {
  const ops::ProductSize size{elements(step.batch), elements(step.m), elements(step.k), elements(step.n)};
  const auto options = values_[step.left].options();
  // An operand as [batch, rows, cols], or its copy that lies so.
  const auto matrices = [&](int id, Indices rows, Indices cols, bool copied) {
    const torch::Tensor& tensor = values_[id];
    const Indices indices = plan_.tensors[id].indices, batch = indices & step.batch;
    if (!copied)
      return ops::Matrices{tensor, stride(indices, batch), stride(indices, rows), stride(indices, cols)};
    const std::int64_t width = elements(cols), height = elements(rows);
    ops::Matrices copy{at::empty({elements(batch) * height * width}, options),
                       elements(batch) > 1 ? height * width : 0, width, 1};
    ops::permuting_copy(copy.tensor, tensor, sizes(indices), order_of(indices, {batch, rows, cols}));
    return copy;
  };
  const Indices made = plan_.tensors[step.result].indices;
  const torch::Tensor result = at::empty({elements(made)}, options);
  const ops::Matrices left = matrices(step.left, step.m, step.k, step.copy_left),
                      right = matrices(step.right, step.k, step.n, step.copy_right);
  if (!step.copy_result) {
    ops::product(size, {result, stride(made, step.batch), stride(made, step.m), stride(made, step.n)}, left,
                 right);
  } else {
    const torch::Tensor first = at::empty({elements(made)}, options);
    ops::product(size, {first, size.m * size.n, size.n, 1}, left, right);
    // `first` lies [batch, m, n]: its dimensions by place, and where each dimension of the result is among
    // them.
    const std::vector<int> places = order_of(made, {step.batch, step.m, step.n});
    const std::vector<std::int64_t> ascending = sizes(made);
    std::vector<std::int64_t> lies(places.size());
    std::vector<int> order(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) lies[i] = ascending[places[i]], order[places[i]] = i;
    ops::permuting_copy(result, first, lies, order);
  }
  values_[step.result] = result;
  for (const int id : step.frees) values_[id] = torch::Tensor();
}

}  // namespace comera::exec
