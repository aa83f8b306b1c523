#include <comera/base/error.h>
#include <comera/base/random.h>
#include <comera/train/batch.h>

namespace comera::train {
namespace {

torch::Tensor tensor(const std::int64_t* values, torch::IntArrayRef sizes, torch::Device device) {
  // from_blob does not own the values, so they are copied either way.
  const torch::Tensor view = torch::from_blob(const_cast<std::int64_t*>(values), sizes, torch::kInt64);
  return device.is_cpu() ? view.clone() : view.to(device);
}

// Chooses the tokens to predict and changes what the model sees of them.
void mask(const data::Batch& batch, std::int64_t first, std::int64_t count, const BatchOptions& options,
          std::uint64_t key, std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& places,
          std::vector<std::int64_t>& targets) {
  const data::SpecialTokens& special = options.special;
  check(special.mask >= 0, "[masked head] the vocabulary has no [MASK] token");
  const auto uniform = [](std::uint32_t bits) { return bits * 0x1p-32; };
  for (std::int64_t b = 0; b < count; ++b) {
    const auto sample = static_cast<std::uint64_t>(batch.sample_ids[first + b]);
    for (std::int64_t t = 0; t < batch.lengths[first + b]; ++t) {
      std::int64_t& token = tokens[b * batch.length + t];
      if (token == special.cls || token == special.sep || token == special.pad) continue;
      const auto random = philox({static_cast<std::uint32_t>(sample),
                                  static_cast<std::uint32_t>(sample >> 32), static_cast<std::uint32_t>(t), 0},
                                 philox_key(key));
      if (uniform(random[0]) >= options.mask_share) continue;
      places.push_back(b * batch.length + t);
      targets.push_back(token);
      const double change = uniform(random[1]);
      if (change < 0.8) {
        token = special.mask;
      } else if (change < 0.9) {
        token = static_cast<std::int64_t>(uniform(random[2]) * static_cast<double>(options.vocabulary));
      }
    }
  }
}

}  // namespace

ModelBatch make_batch(const data::Batch& batch, std::int64_t first, std::int64_t count,
                      const BatchOptions& options, std::uint64_t key) {
  check(first >= 0 && count >= 0 && first + count <= batch.size, "[batch] samples {}..{} of a batch of {}",
        first, first + count, batch.size);
  ModelBatch result;
  result.samples = count;
  for (std::int64_t b = first; b < first + count; ++b) result.tokens += batch.lengths[b];
  const auto begin = batch.tokens.begin() + first * batch.length;
  std::vector<std::int64_t> tokens(begin, begin + count * batch.length), places, targets;
  switch (options.head) {
    case nn::Head::classifier:
      targets.assign(batch.labels.begin() + first, batch.labels.begin() + first + count);
      break;
    case nn::Head::masked:
      mask(batch, first, count, options, key, tokens, places, targets);
      break;
    case nn::Head::next_token:
      for (std::int64_t b = 0; b < count; ++b)
        for (std::int64_t t = 0; t + 1 < batch.lengths[first + b]; ++t) {
          places.push_back(b * batch.length + t);
          targets.push_back(tokens[b * batch.length + t + 1]);
        }
      break;
  }
  result.target_count = static_cast<std::int64_t>(targets.size());
  result.input.tokens = tensor(tokens.data(), {count, batch.length}, options.device);
  result.input.segments =
      tensor(batch.segments.data() + first * batch.length, {count, batch.length}, options.device);
  if (options.head != nn::Head::classifier)
    result.input.places = tensor(places.data(), {result.target_count}, options.device);
  result.targets = tensor(targets.data(), {result.target_count}, options.device);
  result.lengths = tensor(batch.lengths.data() + first, {count}, options.device);
  result.sample_ids = tensor(batch.sample_ids.data() + first, {count}, options.device);
  return result;
}

}  // namespace comera::train
