#include <comera/base/error.h>
#include <comera/nn/encoder.h>
#include <comera/ops/attention.h>
#include <comera/ops/dropout.h>
#include <comera/ops/layer_norm.h>

namespace comera::nn {
namespace {

// One key a layer of the model: the model's seed and the layer's place in it.
std::shared_ptr<LinearBase> linear(torch::nn::Module& owner, const std::string& prefix,
                                   const std::string& name, std::int64_t in, std::int64_t out,
                                   LayerFormats& formats, std::uint64_t key) {
  const std::string full = prefix + "." + name;
  return owner.register_module(name, make_linear(full, in, out, true, formats.find(full), key));
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t width, double epsilon) : epsilon_(epsilon) {
  weight = register_parameter("weight", torch::ones({width}));
  bias = register_parameter("bias", torch::zeros({width}));
}

torch::Tensor LayerNorm::forward(const torch::Tensor& x) {
  return ops::layer_norm(x, weight, bias, epsilon_);
}

Attention::Attention(const std::string& name, const EncoderOptions& options, LayerFormats& formats,
                     std::uint64_t key, std::uint64_t site)
    : options_(options), site_(site) {
  check(options.heads >= 1 && options.width % options.heads == 0,
        "[{}] width {} is not a multiple of {} heads", name, options.width, options.heads);
  const auto square = [&](const char* part, std::uint64_t number) {
    return linear(*this, name, part, options.width, options.width, formats, mix64(key + number));
  };
  query = square("query", 0);
  this->key = square("key", 1);
  value = square("value", 2);
  output = square("output", 3);
}

torch::Tensor Attention::forward(const torch::Tensor& x, const Context& context) {
  const std::optional<torch::Tensor> lengths =
      context.lengths.defined() ? std::optional(context.lengths) : std::nullopt;
  const torch::Tensor mixed =
      ops::attention(query->forward(x), key->forward(x), value->forward(x), options_.heads, lengths,
                     options_.causal, context.mask(options_.attention_dropout, site_));
  return output->forward(mixed);
}

FeedForward::FeedForward(const std::string& name, const EncoderOptions& options, LayerFormats& formats,
                         std::uint64_t key) {
  up = linear(*this, name, "up", options.width, options.ffn, formats, mix64(key));
  down = linear(*this, name, "down", options.ffn, options.width, formats, mix64(key + 1));
}

torch::Tensor FeedForward::forward(const torch::Tensor& x) {
  return down->forward(torch::gelu(up->forward(x)));
}

EncoderLayer::EncoderLayer(const std::string& name, const EncoderOptions& options, LayerFormats& formats,
                           std::uint64_t key, std::uint64_t site)
    : options_(options), name_(name), site_(site) {
  attention_ = register_module(
      "attention", std::make_shared<Attention>(name + ".attention", options, formats, mix64(key), site));
  attention_norm_ =
      register_module("attention_norm", std::make_shared<LayerNorm>(options.width, options.norm_epsilon));
  ffn_ =
      register_module("ffn", std::make_shared<FeedForward>(name + ".ffn", options, formats, mix64(key + 1)));
  ffn_norm_ = register_module("ffn_norm", std::make_shared<LayerNorm>(options.width, options.norm_epsilon));
}

torch::Tensor EncoderLayer::forward(const torch::Tensor& x, const Context& context) {
  const auto attention_mask = context.mask(options_.dropout, site_ + 1);
  const auto ffn_mask = context.mask(options_.dropout, site_ + 2);
  const auto attend = [&](const torch::Tensor& in) {
    return context.seen(name_ + ".attention", attention_->forward(in, context));
  };
  const auto feed = [&](const torch::Tensor& in) { return context.seen(name_ + ".ffn", ffn_->forward(in)); };
  if (options_.norm == NormPlace::post) {
    const torch::Tensor middle = attention_norm_->forward(ops::dropout_add(attend(x), x, attention_mask));
    return ffn_norm_->forward(ops::dropout_add(feed(middle), middle, ffn_mask));
  }
  const torch::Tensor middle = ops::dropout_add(attend(attention_norm_->forward(x)), x, attention_mask);
  return ops::dropout_add(feed(ffn_norm_->forward(middle)), middle, ffn_mask);
}

}  // namespace comera::nn
