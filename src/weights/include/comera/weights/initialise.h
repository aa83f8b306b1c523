// Starting values. Sources: method notes of the project (docs/method.md) and, for `published`, the CoMERA
// paper.
#pragma once

#include <comera/weights/tensor_train.h>

namespace comera::weights {

/// Gaussian cores, then scaled exactly so that the rebuilt W has spectral norm 1 + sqrt(out/in) (TT, found
/// through QR and an r x r SVD; padding excluded). `gain` multiplies the norm. The generator decides every
/// value.
void initialise_spectral(TensorTrain weight, torch::Generator generator, double gain = 1.0);
/// Gaussian cores, then scaled exactly so that mean(W^2) = std^2 over rows x cols in use, W never built for
/// TT.
void initialise_std(TensorTrain weight, torch::Generator generator, double std);
/// As the published code does it: every core N(0, sigma) with one sigma such that Var W = target_std^2 in
/// expectation.
void initialise_published(TensorTrain weight, torch::Generator generator, double target_std);
/// Last core zero: W = 0 at the start, gradients are not (for residual outputs). Call after one of the above.
void zero_last_core(TensorTrain weight);

}  // namespace comera::weights
