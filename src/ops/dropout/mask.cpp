// The mask of kernels/dropout.h as tensor operations, for devices without a kernel, and entry by entry.
#include <comera/kernels/dropout.h>
#include <comera/ops/dropout.h>

#include <array>

namespace comera::ops {
namespace {

using torch::Tensor;

constexpr std::int64_t kLow32 = 0xFFFFFFFF;

/// base/random.h's philox with 32-bit words held in int64 tensors; products wrap to the same 64 bits.
std::array<Tensor, 4> philox_tensors(std::array<Tensor, 4> counter, PhiloxKey key) {
  const auto high = [](const Tensor& product) { return product.__rshift__(32).bitwise_and(kLow32); };
  for (int round = 0; round < 10; ++round) {
    const Tensor left = counter[0] * std::int64_t{0xD2511F53}, right = counter[2] * std::int64_t{0xCD9E8D57};
    counter = {
        high(right).bitwise_xor(counter[1]).bitwise_xor(std::int64_t{key[0]}), right.bitwise_and(kLow32),
        high(left).bitwise_xor(counter[3]).bitwise_xor(std::int64_t{key[1]}), left.bitwise_and(kLow32)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace

Tensor dropout_keep(const DropoutMask& mask, std::int64_t positions, std::int64_t features) {
  using namespace kernels;
  const KeepRule rule = keep_rule(mask.p, mask.key);
  const Tensor ids = mask.sample_ids.view({-1, 1, 1});
  const std::int64_t batch = ids.size(0), groups = (features + kMaskGroup - 1) / kMaskGroup;
  const auto numbers = [&](std::int64_t count) { return torch::arange(count, ids.options()); };
  const auto words =
      philox_tensors({ids.bitwise_and(kLow32), ids.__rshift__(32).bitwise_and(kLow32),
                      numbers(positions).view({1, -1, 1}), numbers(groups * kMaskLanes).view({1, 1, -1})},
                     philox_key(rule.key));
  std::vector<Tensor> halves;
  for (const Tensor& word : words) {
    const Tensor by_group =
        word.expand({batch, positions, groups * kMaskLanes}).reshape({batch, positions, groups, kMaskLanes});
    halves.push_back(by_group.bitwise_and(0xFFFF));
    halves.push_back(by_group.__rshift__(16));
  }
  const Tensor bits = torch::stack(halves, 3).view({batch, positions, groups * kMaskGroup});
  return bits.slice(2, 0, features) < std::int64_t{rule.threshold};
}

namespace reference {

Tensor dropout_keep(const DropoutMask& mask, std::int64_t positions, std::int64_t features) {
  const kernels::KeepRule rule = kernels::keep_rule(mask.p, mask.key);
  const Tensor ids = mask.sample_ids.to(torch::kCPU);
  const Tensor keep = torch::empty({ids.numel(), positions, features}, torch::kFloat64);
  auto out = keep.accessor<double, 3>();
  for (std::int64_t b = 0; b < ids.numel(); ++b) {
    const auto sample = static_cast<std::uint64_t>(ids[b].item<std::int64_t>());
    for (std::int64_t t = 0; t < positions; ++t)
      for (std::int64_t f = 0; f < features; ++f)
        out[b][t][f] = kernels::keeps(rule, sample, static_cast<std::uint32_t>(t), f) ? 1 : 0;
  }
  return keep;
}

Tensor dropout(const Tensor& x, const DropoutMask& mask) {
  if (mask.p == 0) return x;
  const Tensor keep = reference::dropout_keep(mask, x.size(1), x.size(2)).to(x.device());
  return torch::where(keep == 1, x * kernels::keep_rule(mask.p, mask.key).scale(), torch::zeros_like(x));
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask) {
  return residual + reference::dropout(x, mask);
}

}  // namespace reference
}  // namespace comera::ops
