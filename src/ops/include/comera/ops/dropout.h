// Dropout whose mask is a function of (key, sample, position, feature): nothing is stored, the backward makes
// the mask again, and neither padding, batch composition nor thread count changes it. kernels/dropout.h
// defines the mask.
#pragma once

#include <comera/weights/torch.h>

#include <cstdint>

namespace comera::ops {

/// Where a dropout draws its numbers from.
struct DropoutMask {
  double p = 0;              ///< share of entries set to zero, [0, 1), rounded to 1/65536; 0 = no dropout
  std::uint64_t key = 0;     ///< random_key(seed, step, site)
  torch::Tensor sample_ids;  ///< [batch] int64: the sample's number in the data set; not read when p is 0
};

/// y = x * keep / (share kept): x [batch, positions, features], any floating dtype and device, the same mask
/// for all. keep of entry (b, t, f) depends on key, sample_ids[b], t and f only. With p = 0 the result is x
/// itself. torch operator: comera::dropout.
torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask);
/// residual + dropout(x), one pass. torch operator: comera::dropout_add.
torch::Tensor dropout_add(const torch::Tensor& x, const torch::Tensor& residual, const DropoutMask& mask);

/// The mask as ordinary tensor operations on the device of sample_ids, bool [batch, positions, features].
torch::Tensor dropout_keep(const DropoutMask& mask, std::int64_t positions, std::int64_t features);

namespace reference {
/// The mask itself, 0 or 1 in fp64, [batch, positions, features], computed on the host one number at a time.
torch::Tensor dropout_keep(const DropoutMask& mask, std::int64_t positions, std::int64_t features);
torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask);
torch::Tensor dropout_add(const torch::Tensor& x, const torch::Tensor& residual, const DropoutMask& mask);
}  // namespace reference

}  // namespace comera::ops
