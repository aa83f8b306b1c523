// Starting values. All random numbers come from `key` alone, so they are the same on every torch version,
// device and thread count. Rank scales become ones. A dead weight has no values and stays as it is. W is
// never built.
#pragma once

#include <comera/weights/tensor_train.h>

#include <cstdint>

namespace comera::weights {

/// TT: Gaussian cores of std d_in^-1/2 min(1, sqrt(d_out / d_in)), with (d_in, d_out) = (r_{k-1} m_k, r_k) on
/// the input side and (r_{k-1}, r_k n_k) on the output side, then all scaled by one factor so that the
/// spectral norm of W is exactly gain * (1 + sqrt(cols / rows)), the one of a dense layer that keeps
/// variances.
void initialise_spectral(TensorTrain weight, std::uint64_t key, double gain = 1.0);

/// TT or TTM: Gaussian cores (TT: as above; TTM: one std, so that equal steps change all cores alike), then
/// scaled so that the mean of W^2 over rows and columns in use is exactly std^2.
void initialise_std(TensorTrain weight, std::uint64_t key, double std);

/// The published rule (CoMERA): one std for all cores, such that the variance of W is std^2 in expectation.
void initialise_published(TensorTrain weight, std::uint64_t key, double std);

/// Last core zero: W = 0 at the start while the gradient of that core is not (for residual outputs). Call
/// after one of the above.
void zero_last_core(TensorTrain weight);

}  // namespace comera::weights
