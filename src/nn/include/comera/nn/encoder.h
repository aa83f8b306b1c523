// Transformer encoder layer: attention and feed-forward with residuals, norm before or after.
#pragma once

#include <comera/nn/context.h>
#include <comera/nn/linear.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>
#include <string>

namespace comera::nn {

enum class NormPlace { post, pre };

struct EncoderOptions {
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t ffn = 3072;
  NormPlace norm = NormPlace::post;
  double norm_epsilon = 1e-9;
  double dropout = 0.1;            ///< of sub-layer outputs
  double attention_dropout = 0.1;  ///< of attention probabilities
  bool causal = false;
};

class LayerNorm : public torch::nn::Module {
 public:
  LayerNorm(std::int64_t width, double epsilon);
  torch::Tensor forward(const torch::Tensor& x);
  torch::Tensor weight, bias;

 private:
  double epsilon_;
};

/// Multi-head self-attention: linear layers query, key, value, output.
class Attention : public torch::nn::Module {
 public:
  Attention(const std::string& name, const EncoderOptions& options, LayerFormats& formats, std::uint64_t key,
            std::uint64_t site);
  /// x [batch, positions, width] -> same.
  torch::Tensor forward(const torch::Tensor& x, const Context& context);
  std::shared_ptr<LinearBase> query, key, value, output;

 private:
  EncoderOptions options_;
  std::uint64_t site_;
};

/// up, GELU, down.
class FeedForward : public torch::nn::Module {
 public:
  FeedForward(const std::string& name, const EncoderOptions& options, LayerFormats& formats,
              std::uint64_t key);
  torch::Tensor forward(const torch::Tensor& x);
  std::shared_ptr<LinearBase> up, down;
};

class EncoderLayer : public torch::nn::Module {
 public:
  /// `site`: number of this layer's first random place; it uses three.
  EncoderLayer(const std::string& name, const EncoderOptions& options, LayerFormats& formats,
               std::uint64_t key, std::uint64_t site);
  torch::Tensor forward(const torch::Tensor& x, const Context& context);
  static constexpr std::uint64_t kSites = 3;

 private:
  EncoderOptions options_;
  std::string name_;
  std::uint64_t site_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<FeedForward> ffn_;
  std::shared_ptr<LayerNorm> attention_norm_, ffn_norm_;
};

}  // namespace comera::nn
