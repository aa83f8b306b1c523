#include "host_random.h"

#include <comera/base/error.h>
#include <comera/base/machine.h>
#include <comera/base/text.h>
#include <comera/nn/model.h>
#include <comera/ops/dropout.h>
#include <comera/weights/initialise.h>

namespace comera::nn {
namespace {

constexpr std::int64_t kLargestSide = std::int64_t{1} << 31;
constexpr std::uint64_t kEmbeddingSite = 0, kPoolerSite = 1, kFirstEncoderSite = 2;

}  // namespace

void check_model(const ModelOptions& options, const std::vector<FormatRule>& rules) {
  check(
      options.vocabulary >= 1 && options.positions >= 1 && options.layers >= 0 && options.encoder.width >= 1,
      "[model] vocabulary {}, positions {} and width {} must be 1 or more", options.vocabulary,
      options.positions, options.encoder.width);
  check(options.vocabulary < kLargestSide && options.positions < kLargestSide &&
            options.encoder.width < kLargestSide && options.encoder.ffn < kLargestSide &&
            options.layers < 100'000,
        "[model] sizes must be below {} (layers below 100,000)", kLargestSide);
  LayerFormats formats(rules);
  const std::int64_t width = options.encoder.width, ffn = options.encoder.ffn;
  double values = static_cast<double>(options.positions + options.segments) * width;
  const auto add = [&](const std::string& name, std::int64_t in, std::int64_t out, bool table = false) {
    const LayerFormat format = formats.find(name);
    values += format.kind == LayerKind::dense ? static_cast<double>(in) * out
              : table ? static_cast<double>(table_shape(name, in, out, format).parameters())
                      : static_cast<double>(linear_shape(name, in, out, format).parameters());
  };
  add("embedding.word", options.vocabulary, width, true);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const std::string name = fmt::format("encoder.{}.", i);
    for (const char* part : {"query", "key", "value", "output"})
      add(name + "attention." + part, width, width);
    add(name + "ffn.up", width, ffn);
    add(name + "ffn.down", ffn, width);
    check(values < 1e15, "[model] {} layers of width {} and ffn {} are too large for any machine",
          options.layers, width, ffn);
  }
  if (options.head == Head::classifier) {
    if (options.pooler) add("pooler", width, width);
    if (options.labels > 0)
      add("head", width, options.labels);
    else
      formats.find("head");
  } else {
    if (options.head == Head::masked) add("transform", width, width);
    add("head", width, options.vocabulary);
  }
  formats.check_all_used();
  const double bytes = 4 * values, memory = static_cast<double>(available_memory());
  check(bytes < memory, "[model] the parameters need {}, this machine has {}", format_bytes(bytes),
        format_bytes(memory));
}

Model::Model(const ModelOptions& options, std::vector<FormatRule> rules, std::uint64_t seed)
    : options_(options) {
  check(options.head != Head::classifier || options.labels >= 2,
        "[model] a classifier needs 2 labels or more, got {}", options.labels);
  check_model(options, rules);
  LayerFormats formats(std::move(rules));
  const std::int64_t width = options.encoder.width;
  const auto key = [seed](std::uint64_t place) { return random_key(seed, ~std::uint64_t{0}, place); };
  const auto add_linear = [&](const char* name, std::int64_t in, std::int64_t out, std::uint64_t place) {
    auto layer = register_module(name, make_linear(name, in, out, true, formats.find(name), key(place)));
    linears_.emplace_back(name, layer);
    return layer;
  };

  auto embedding = register_module("embedding", std::make_shared<torch::nn::Module>());
  word_ = embedding->register_module(
      "word", make_table("embedding.word", options.vocabulary, width, options.table_std,
                         formats.find("embedding.word"), key(0)));
  position_ = embedding->register_parameter(
      "position", normal_tensor({options.positions, width}, options.table_std, key(1)));
  if (options.segments > 0)
    segment_ = embedding->register_parameter(
        "segment", normal_tensor({options.segments, width}, options.table_std, key(2)));
  const bool post = options.encoder.norm == NormPlace::post;
  const auto norm = [&] { return std::make_shared<LayerNorm>(width, options.encoder.norm_epsilon); };
  if (post) embedding_norm_ = embedding->register_module("norm", norm());

  auto layers = register_module("encoder", std::make_shared<torch::nn::Module>());
  EncoderOptions encoder = options.encoder;
  encoder.causal = options.head == Head::next_token;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const std::string name = fmt::format("encoder.{}", i);
    auto layer = std::make_shared<EncoderLayer>(name, encoder, formats, key(1000 + i),
                                                kFirstEncoderSite + i * EncoderLayer::kSites);
    layers->register_module(std::to_string(i), layer);
    encoder_.push_back(layer);
    for (const char* part :
         {"attention.query", "attention.key", "attention.value", "attention.output", "ffn.up", "ffn.down"}) {
      const std::string full = name + "." + part;
      for (const auto& child : layer->named_modules())
        if (child.key() == part)
          linears_.emplace_back(full, std::dynamic_pointer_cast<LinearBase>(child.value()));
    }
  }
  if (!post) final_norm_ = register_module("final_norm", norm());

  if (options.head == Head::classifier) {
    if (options.pooler) pooler_ = add_linear("pooler", width, width, 10);
    head_ = add_linear("head", width, options.labels, 11);
  } else {
    if (options.head == Head::masked) {
      transform_ = add_linear("transform", width, width, 10);
      transform_norm_ = register_module("transform_norm", norm());
    }
    head_ = add_linear("head", width, options.vocabulary, 11);
  }

  if (options.zero_residual)
    for (const auto& [name, layer] : linears_)
      if (auto* train = dynamic_cast<TtLinearImpl*>(layer.get());
          train && (name.ends_with(".attention.output") || name.ends_with(".ffn.down")))
        weights::zero_last_core(train->tensor_train());
}

torch::Tensor Model::encode(const ModelInput& input, const Context& context) {
  const torch::Tensor& tokens = input.tokens;
  check(tokens.dim() == 2, "[model] expected tokens [batch, positions], got {} dimensions", tokens.dim());
  check(tokens.size(1) <= position_.size(0),
        "[model] {} tokens in a sample, the model has {} positions; raise "
        "model.positions or lower data.max_length",
        tokens.size(1), position_.size(0));
  torch::Tensor x = word_->forward(tokens) + position_.slice(0, 0, tokens.size(1));
  if (segment_.defined())
    x = x + (input.segments.defined() ? torch::embedding(segment_, input.segments) : segment_[0]);
  if (embedding_norm_) x = embedding_norm_->forward(x);
  x = ops::dropout(context.seen("embedding", x), context.mask(options_.encoder.dropout, kEmbeddingSite));
  for (const auto& layer : encoder_) x = layer->forward(x, context);
  return final_norm_ ? final_norm_->forward(x) : x;
}

torch::Tensor Model::pool(const torch::Tensor& hidden, const Context& context) {
  if (options_.pooling == Pooling::first) return hidden.select(1, 0);
  if (!context.lengths.defined()) return hidden.mean(1);
  const torch::Tensor lengths = context.lengths.clamp_min(1).unsqueeze(1);
  const torch::Tensor real =
      torch::arange(hidden.size(1), lengths.options()).unsqueeze(0) < context.lengths.unsqueeze(1);
  const torch::Tensor share = real.to(hidden.dtype()) / lengths.to(hidden.dtype());
  return torch::bmm(share.unsqueeze(1), hidden).squeeze(1);
}

torch::Tensor Model::logits(const ModelInput& input, const Context& context) {
  const torch::Tensor hidden = encode(input, context);
  if (options_.head == Head::classifier) {
    torch::Tensor pooled = pool(hidden, context);
    if (pooler_) pooled = torch::tanh(pooler_->forward(pooled));
    pooled =
        ops::dropout(pooled.unsqueeze(1), context.mask(options_.encoder.dropout, kPoolerSite)).squeeze(1);
    return context.seen("head", head_->forward(pooled));
  }
  check(input.places.defined(), "[model] a token head needs the places to predict");
  torch::Tensor rows = hidden.reshape({-1, hidden.size(-1)}).index_select(0, input.places);
  if (transform_) rows = transform_norm_->forward(torch::gelu(transform_->forward(rows)));
  return context.seen("head", head_->forward(rows));
}

std::string Model::first_not_finite(const ModelInput& input, Context context) {
  for (const auto& parameter : named_parameters())
    if (!torch::isfinite(parameter.value()).all().item<bool>()) return "parameter " + parameter.key();
  std::string found;
  context.observe = [&](const std::string& part, const torch::Tensor& value) {
    if (found.empty() && !torch::isfinite(value).all().item<bool>()) found = "output of " + part;
  };
  torch::NoGradGuard no_grad;
  logits(input, context);
  if (!found.empty()) return found;
  for (const auto& parameter : named_parameters())
    if (const torch::Tensor& gradient = parameter.value().grad();
        gradient.defined() && !torch::isfinite(gradient).all().item<bool>())
      return "gradient of " + parameter.key();
  return "";
}

std::vector<LayerInfo> Model::layers() const {
  std::vector<LayerInfo> infos;
  infos.push_back(word_->info());
  infos.back().name = "embedding.word";
  for (const auto& [name, layer] : linears_) {
    infos.push_back(layer->info());
    infos.back().name = name;
  }
  return infos;
}

std::vector<weights::NamedTensorTrain> Model::trains() const {
  std::vector<weights::NamedTensorTrain> trains;
  if (const auto* table = dynamic_cast<const TtmTableImpl*>(word_.get()))
    trains.push_back({"embedding.word", table->tensor_train()});
  for (const auto& [name, layer] : linears_)
    if (const auto* train = dynamic_cast<const TtLinearImpl*>(layer.get()))
      trains.push_back({name, train->tensor_train()});
  return trains;
}

weights::Dependencies Model::dependencies() const {
  weights::Dependencies result;
  for (const auto& [name, weight] : trains())
    if (name.starts_with("encoder.")) result.may_die.push_back(name);
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    const std::string attention = fmt::format("encoder.{}.attention.", i),
                      ffn = fmt::format("encoder.{}.ffn.", i);
    result.useless_without.push_back(
        {attention + "output", {attention + "query", attention + "key", attention + "value"}});
    result.useless_without.push_back({attention + "value", {attention + "query", attention + "key"}});
    result.useless_without.push_back({ffn + "down", {ffn + "up"}});
  }
  return result;
}

ModelSize model_size(const Model& model) {
  ModelSize size;
  for (const auto& parameter : model.parameters()) size.total += parameter.numel();
  for (const auto& [name, weight] : model.trains()) {
    size.cores += weight.shape().core_parameters();
    size.rank_scales += weight.shape().scale_parameters();
  }
  size.other = size.total - size.cores - size.rank_scales;
  size.dense_total = size.total;
  for (const auto& layer : model.layers()) size.dense_total += layer.dense_parameters - layer.parameters;
  return size;
}

LossSum cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& targets) {
  if (targets.size(0) == 0)  // every label of the batch is ignored: loss 0, gradient 0
    return {logits.sum() * 0, torch::zeros({}, targets.options())};
  return {torch::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum),
          (logits.detach().argmax(-1) == targets).sum()};
}

}  // namespace comera::nn
