#include <comera/base/error.h>
#include <comera/nn/factor_scope.h>
#include <comera/train/evaluate.h>

#include <algorithm>
#include <numeric>

namespace comera::train {
namespace {

// Gathers samples of similar length, so that little padding is computed.
data::Batch gather(const data::Dataset& data, const std::vector<std::int64_t>& indices,
                   const EvaluateOptions& options) {
  data::Batch batch;
  batch.size = static_cast<std::int64_t>(indices.size());
  for (const std::int64_t index : indices)
    batch.length =
        std::max(batch.length, std::min<std::int64_t>(options.max_length, data[index].tokens.size()));
  const std::int64_t pad = std::max<std::int64_t>(0, options.batch.special.pad);
  batch.tokens.assign(batch.size * batch.length, pad);
  batch.segments.assign(batch.size * batch.length, 0);
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const data::Sample sample = data[indices[b]];
    const auto length = std::min<std::int64_t>(batch.length, sample.tokens.size());
    for (std::int64_t t = 0; t < length; ++t) {
      batch.tokens[b * batch.length + t] = sample.tokens[t];
      batch.segments[b * batch.length + t] = t >= sample.first_segment;
    }
    if (length < static_cast<std::int64_t>(sample.tokens.size()))
      batch.tokens[b * batch.length + length - 1] = sample.tokens.back();
    batch.lengths.push_back(length);
    batch.labels.push_back(sample.label);
    batch.sample_ids.push_back(indices[b]);
  }
  return batch;
}

}  // namespace

Evaluation evaluate(nn::Model& model, const data::Dataset& data, const EvaluateOptions& options) {
  check(data.size() > 0, "[evaluate] the held-out data has no samples");
  const std::int64_t count = options.samples > 0 ? std::min(options.samples, data.size()) : data.size();
  std::vector<std::int64_t> order(count);
  for (std::int64_t i = 0; i < count; ++i) order[i] = i * data.size() / count;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return data[a].tokens.size() < data[b].tokens.size();
  });

  torch::NoGradGuard no_grad;
  nn::FactorScope factors(model);
  const bool classifier = options.batch.head == nn::Head::classifier;
  MetricSums sums(classifier ? model.options().labels : model.options().vocabulary);
  for (std::int64_t begin = 0; begin < count; begin += options.batch_size) {
    const std::int64_t size = std::min(options.batch_size, count - begin);
    const data::Batch batch = gather(data, {order.begin() + begin, order.begin() + begin + size}, options);
    const ModelBatch inputs = make_batch(batch, 0, size, options.batch, random_key(options.mask_seed, 0, 0));
    if (inputs.target_count == 0) continue;
    nn::Context context;
    context.sample_ids = inputs.sample_ids;
    context.lengths = inputs.lengths;
    const torch::Tensor logits = model.logits(inputs.input, context).to(torch::kFloat64);
    const torch::Tensor nats =
        torch::cross_entropy_loss(logits, inputs.targets, {}, at::Reduction::None).cpu().contiguous();
    const torch::Tensor predicted = logits.argmax(-1).cpu().contiguous(), targets = inputs.targets.cpu();
    for (std::int64_t i = 0; i < inputs.target_count; ++i)
      sums.add(targets.data_ptr<std::int64_t>()[i], predicted.data_ptr<std::int64_t>()[i],
               nats.data_ptr<double>()[i]);
  }
  return classifier ? sums.classifier() : sums.tokens();
}

}  // namespace comera::train
