// Runs a plan over plain arrays, step by step as it is written, and counts.
#pragma once

#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/plan/plan.h>

#include <cmath>
#include <map>
#include <vector>

namespace comera::test {

using Values = std::vector<double>;

/// Where the positions of a group of indices lie in a tensor: one offset a position, row-major over the group
/// in ascending order. An index that the tensor does not have moves nothing.
inline std::vector<std::int64_t> offsets(const plan::Network& network, plan::Indices tensor,
                                         plan::Indices group) {
  std::vector<std::int64_t> result{0};
  std::int64_t stride = 1;
  std::vector<std::int64_t> strides(network.indices.size(), 0);
  for (std::size_t i = network.indices.size(); i-- > 0;)
    if (tensor >> i & 1) strides[i] = stride, stride *= network.indices[i].size;
  for (std::size_t i = 0; i < network.indices.size(); ++i) {
    if (!(group >> i & 1)) continue;
    std::vector<std::int64_t> longer;
    for (const std::int64_t offset : result)
      for (std::int64_t at = 0; at < network.indices[i].size; ++at)
        longer.push_back(offset + at * strides[i]);
    result = std::move(longer);
  }
  return result;
}

class Interpreter {
 public:
  /// `leaves`: values of X, the cores and dY, as the network has them.
  Interpreter(const plan::Plan& plan, const std::vector<Values>& leaves) : plan_(plan) {
    for (std::size_t i = 0; i < leaves.size(); ++i) values_[static_cast<int>(i)] = leaves[i];
  }

  void run() {
    bool backward = false;
    for (const plan::Step& step : plan_.steps) {
      if (step.backward && !backward) {
        backward = true;
        live_ -= bytes(plan_.results.back());  // Y is the caller's
        peak_ = std::max(peak_, live_);
      }
      one(step);
    }
  }

  const Values& result(int leaf) const { return values_.at(plan_.results[leaf]); }
  std::int64_t multiply_adds() const { return multiply_adds_; }
  std::int64_t peak() const { return peak_; }
  /// Bytes that live at the end.
  std::int64_t live() const { return live_; }

 private:
  std::int64_t bytes(int tensor) const {
    return static_cast<std::int64_t>(values_.at(tensor).size()) * plan::element_bytes(plan_.request.dtype);
  }

  struct Matrix {
    std::vector<std::int64_t> batch, rows, cols;
  };

  // Offsets of a tensor's groups. What is not copied has to have one stride a group, and a matrix 1 among its
  // own.
  Matrix matrix(int tensor, plan::Indices batch, plan::Indices rows, plan::Indices cols, bool copied) const {
    const plan::Indices indices = plan_.tensors[tensor].indices;
    Matrix result{offsets(plan_.network, indices, batch), offsets(plan_.network, indices, rows),
                  offsets(plan_.network, indices, cols)};
    if (copied) return result;
    bool unit = result.rows.size() == 1 && result.cols.size() == 1;
    for (const auto* group : {&result.batch, &result.rows, &result.cols}) {
      const std::int64_t stride = group->size() > 1 ? (*group)[1] : 0;
      for (std::size_t i = 0; i < group->size(); ++i)
        check((*group)[i] == static_cast<std::int64_t>(i) * stride, "{} does not lie as the step says",
              plan_.tensors[tensor].name);
      unit = unit || (group != &result.batch && stride == 1);
    }
    check(unit, "{} is no matrix with a stride of 1", plan_.tensors[tensor].name);
    return result;
  }

  void one(const plan::Step& step) {
    const Values &left = values_.at(step.left), &right = values_.at(step.right);
    const Matrix a = matrix(step.left, step.batch, step.m, step.k, step.copy_left),
                 b = matrix(step.right, step.batch, step.k, step.n, step.copy_right),
                 c = matrix(step.result, step.batch, step.m, step.n, step.copy_result);
    Values result(c.batch.size() * c.rows.size() * c.cols.size(), NAN);
    for (std::size_t t = 0; t < c.batch.size(); ++t)
      for (std::size_t i = 0; i < c.rows.size(); ++i)
        for (std::size_t j = 0; j < c.cols.size(); ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < a.cols.size(); ++k, ++multiply_adds_)
            sum += left[a.batch[t] + a.rows[i] + a.cols[k]] * right[b.batch[t] + b.rows[k] + b.cols[j]];
          result[c.batch[t] + c.rows[i] + c.cols[j]] = sum;
        }
    std::int64_t workspace = 0;
    if (step.copy_left) workspace += bytes(step.left);
    if (step.copy_right) workspace += bytes(step.right);
    check(values_.emplace(step.result, std::move(result)).second, "{} is there already",
          plan_.tensors[step.result].name);
    if (step.copy_result) workspace += bytes(step.result);
    live_ += bytes(step.result);
    peak_ = std::max(peak_, live_ + workspace);
    for (const int id : step.frees) {
      live_ -= bytes(id);
      values_.erase(id);
    }
  }

  const plan::Plan& plan_;
  std::map<int, Values> values_;
  std::int64_t multiply_adds_ = 0, live_ = 0, peak_ = 0;
};

/// Random values for every leaf.
inline std::vector<Values> random_leaves(const plan::Network& network, RandomStream& random) {
  std::vector<Values> leaves;
  for (const plan::Leaf& leaf : network.leaves) {
    leaves.emplace_back(plan::checked_elements(network, leaf.indices, leaf.name));
    for (double& value : leaves.back()) value = random.normal();
  }
  return leaves;
}

/// The gradient of one leaf, straight from the definition: the sum over every index of the product of all
/// others.
inline Values direct_gradient(const plan::Network& network, const std::vector<Values>& leaves, int of) {
  const plan::Indices every = (plan::Indices{1} << network.indices.size()) - 1;
  std::vector<std::vector<std::int64_t>> places;
  for (const plan::Leaf& leaf : network.leaves) places.push_back(offsets(network, leaf.indices, every));
  Values result(leaves[of].size(), 0.0);
  for (std::size_t at = 0; at < places[0].size(); ++at) {
    double product = 1;
    for (int leaf = 0; leaf < network.size(); ++leaf)
      if (leaf != of) product *= leaves[leaf][places[leaf][at]];
    result[places[of][at]] += product;
  }
  return result;
}

}  // namespace comera::test
