// From a padded batch of token ids to tensors and targets for the model's head.
#pragma once

#include <comera/data/loader.h>
#include <comera/data/tokenizer.h>
#include <comera/nn/model.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <vector>

namespace comera::train {

struct ModelBatch {
  nn::ModelInput input;
  torch::Tensor lengths, sample_ids;  ///< [batch] int64
  torch::Tensor targets;              ///< [m] int64: classes, or tokens at input.places
  std::int64_t target_count = 0;      ///< m, known on the host
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  ///< real tokens
};

struct BatchOptions {
  nn::Head head = nn::Head::classifier;
  double mask_share = 0.15;
  data::SpecialTokens special;
  std::int64_t vocabulary = 0;
  torch::Device device = torch::kCPU;
};

/// Samples `first` .. `first + count` of `batch`. Masked heads: each real token that is not special is
/// predicted with probability mask_share; of these 80% are shown as [MASK], 10% as a random token, 10%
/// unchanged (BERT). The choice depends on (key, sample, position) only. Next-token heads predict every real
/// token after the first.
ModelBatch make_batch(const data::Batch& batch, std::int64_t first, std::int64_t count,
                      const BatchOptions& options, std::uint64_t key);

}  // namespace comera::train
