// Norms of W over the rows and columns in use, in fp64, without building W.
#pragma once

#include <comera/weights/tensor_train.h>

namespace comera::weights {

/// ||W||_F by sums of small Gram matrices from the last core to the first; padding excluded.
double frobenius_norm(const TensorTrain& weight);
/// Largest singular value of W [rows, cols] of a TT weight, by QR of its two factors at the middle bond
/// ([rows, r] and [r, cols]) and an r x r SVD; padding excluded.
double spectral_norm(const TensorTrain& weight);

}  // namespace comera::weights
