#include <comera/base/error.h>
#include <comera/weights/bond_change.h>

namespace comera::weights {
namespace {

// The matrices of the bonds left and right of core k; undefined at the borders.
struct Sides {
  torch::Tensor left, right;
};
Sides gradient_sides(const std::vector<BondChange>& changes, std::int64_t core) {
  Sides sides;
  if (core > 0) sides.left = changes[core - 1].gradient_left;
  if (core < static_cast<std::int64_t>(changes.size())) sides.right = changes[core].gradient_right;
  return sides;
}

// Scale moments of continued ranks, `fresh` for new ones.
torch::Tensor continue_or(const torch::Tensor& moment, const BondChange& change, const torch::Tensor& fresh) {
  check(moment.dim() == 1 && moment.size(0) == change.change.old_rank,
        "[rank change] moments of bond {} of {} have sizes [{}], expected [{}]", change.change.bond,
        change.change.weight, fmt::join(moment.sizes(), ","), change.change.old_rank);
  if (change.change.old_rank == 0) return moment.new_zeros({change.change.new_rank()});
  const torch::Tensor from = torch::tensor(change.change.from, torch::kLong).to(moment.device());
  return torch::where(from < 0, fresh, moment.index_select(0, from.clamp_min(0)));
}

}  // namespace

BondChange select_ranks(format::RankChange change, const torch::Tensor& scales) {
  const torch::Tensor indices = torch::tensor(change.from, torch::kLong);
  const torch::Tensor right = torch::eye(change.old_rank, torch::kDouble).index_select(1, indices);
  const torch::Tensor left = right.t().contiguous();
  return {std::move(change),
          right,
          left,
          right,
          left,
          scales.detach().to(torch::kCPU, torch::kDouble).index_select(0, indices)};
}

std::vector<BondChange> slice(const TensorTrain& weight, const std::string& name,
                              const std::vector<std::vector<std::int64_t>>& kept) {
  const format::Shape& shape = weight.shape();
  check(static_cast<std::int64_t>(kept.size()) == shape.bonds(),
        "[slice] {} has {} bonds, got {} lists of ranks", name, shape.bonds(), kept.size());
  const bool dead = std::any_of(kept.begin(), kept.end(), [](const auto& list) { return list.empty(); });
  const auto scales = weight.scales();
  std::vector<BondChange> changes;
  for (std::int64_t k = 0; k < shape.bonds(); ++k) {
    const std::int64_t old_rank = shape.rank(k);
    for (std::size_t j = 0; j < kept[k].size(); ++j)
      check(kept[k][j] >= (j == 0 ? 0 : kept[k][j - 1] + 1) && kept[k][j] < old_rank,
            "[slice] ranks kept at bond {} of {} must ascend within 0..{}, got {}", k, name, old_rank - 1,
            fmt::join(kept[k], ","));
    changes.push_back(
        select_ranks({name, k, old_rank, dead ? std::vector<std::int64_t>{} : kept[k]}, scales[k]));
  }
  return changes;
}

void apply(TensorTrain weight, const std::vector<BondChange>& changes) {
  check(static_cast<std::int64_t>(changes.size()) == weight.shape().bonds(),
        "[rank change] expected {} bonds, got {}", weight.shape().bonds(), changes.size());
  std::vector<torch::Tensor> cores, scales;
  const auto old_cores = weight.cores();
  for (std::size_t k = 0; k < old_cores.size(); ++k)
    cores.push_back(transform_core(old_cores[k], k > 0 ? changes[k - 1].left : torch::Tensor(),
                                   k < changes.size() ? changes[k].right : torch::Tensor()));
  for (const BondChange& change : changes) scales.push_back(change.scales);
  weight.replace(cores, scales);
}

torch::Tensor transform_core(const torch::Tensor& core, const torch::Tensor& left,
                             const torch::Tensor& right) {
  const auto on_device = [&](const torch::Tensor& matrix) {
    return matrix.to(core.device(), torch::kDouble);
  };
  std::vector<std::int64_t> sizes = core.sizes().vec();
  std::int64_t middle = 1;
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) middle *= sizes[i];
  for (const auto& [matrix, of_matrix, of_core] :
       {std::tuple{left, std::int64_t{1}, sizes.front()}, std::tuple{right, std::int64_t{0}, sizes.back()}})
    check(!matrix.defined() || (matrix.dim() == 2 && matrix.size(of_matrix) == of_core),
          "[rank change] a core of sizes [{}] does not fit a change from {} ranks", fmt::join(sizes, ","),
          matrix.defined() ? matrix.size(of_matrix) : 0);
  torch::Tensor result = core.detach().to(torch::kDouble);
  if (left.defined()) {
    result = on_device(left).matmul(result.reshape({sizes.front(), middle * sizes.back()}));
    sizes.front() = left.size(0);
  }
  if (right.defined()) {
    result = result.reshape({sizes.front() * middle, sizes.back()}).matmul(on_device(right));
    sizes.back() = right.size(1);
  }
  return result.reshape(sizes).to(core.scalar_type());
}

torch::Tensor transform_first_moment(const torch::Tensor& moment, const std::vector<BondChange>& changes,
                                     std::int64_t core) {
  const Sides sides = gradient_sides(changes, core);
  return transform_core(moment, sides.left, sides.right);
}

torch::Tensor transform_second_moment(const torch::Tensor& moment, const std::vector<BondChange>& changes,
                                      std::int64_t core) {
  const auto square = [](const torch::Tensor& matrix) { return matrix.defined() ? matrix.square() : matrix; };
  const Sides sides = gradient_sides(changes, core);
  return transform_core(moment, square(sides.left), square(sides.right));
}

torch::Tensor transform_scale_first_moment(const torch::Tensor& moment, const BondChange& change) {
  return continue_or(moment, change, torch::zeros({}, moment.options()));
}

torch::Tensor transform_scale_second_moment(const torch::Tensor& moment, const BondChange& change) {
  return continue_or(moment, change, moment.mean());
}

}  // namespace comera::weights
