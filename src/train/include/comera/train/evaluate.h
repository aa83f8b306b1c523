// Measures a model on a dataset.
#pragma once

#include <comera/data/dataset.h>
#include <comera/nn/model.h>
#include <comera/train/batch.h>
#include <comera/train/metrics.h>

#include <cstdint>
#include <functional>

namespace comera::train {

struct EvaluateOptions {
  BatchOptions batch;
  std::int64_t batch_size = 64;
  std::int64_t max_length = 128;
  std::int64_t samples = 0;     ///< evenly spread over the data set; 0 = all
  std::uint64_t mask_seed = 0;  ///< masked heads: which tokens are hidden
};

/// Factors are built once; the result does not depend on batch_size.
Evaluation evaluate(nn::Model& model, const data::Dataset& data, const EvaluateOptions& options);

}  // namespace comera::train
