// The whole transformer: embedding, encoder layers, and a head.
#pragma once

#include <comera/nn/encoder.h>
#include <comera/nn/table.h>
#include <comera/weights/dependencies.h>
#include <comera/weights/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace comera::nn {

enum class Head {
  classifier,  ///< one label a sample
  masked,      ///< the token at masked positions (BERT)
  next_token,  ///< the next token at every position; the encoder is causal
};
enum class Pooling { first, mean };

struct ModelOptions {
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512;
  std::int64_t segments = 2;  ///< 0 = no segment table
  std::int64_t layers = 6;
  EncoderOptions encoder;
  Head head = Head::classifier;
  std::int64_t labels = 3;           ///< classifier
  Pooling pooling = Pooling::first;  ///< classifier
  bool pooler = true;                ///< classifier: a width x width layer with tanh before the head
  double table_std = 0.02;           ///< starting deviation of the word, position and segment tables
  bool zero_residual = false;        ///< compressed residual outputs start at zero
};

/// One batch. Only what the head needs must be defined.
struct ModelInput {
  torch::Tensor tokens;    ///< [batch, positions] int64
  torch::Tensor segments;  ///< [batch, positions] int64, 0 or 1; undefined = all 0
  torch::Tensor
      places;  ///< token heads: [m] int64, flat positions b * positions + t whose token is predicted
};

/// Throws Error for what Model would refuse about names, shapes and memory: a rule that no layer matches,
/// ranks that cannot be, parameters that this machine cannot hold. Allocates nothing. labels = 0: not known
/// yet.
void check_model(const ModelOptions& options, const std::vector<FormatRule>& rules);

class Model : public torch::nn::Module {
 public:
  /// Starting values depend on `seed` only. Layer names: embedding.word,
  /// encoder.I.attention.{query,key,value,output}, encoder.I.ffn.{up,down}, pooler, head, head.transform.
  Model(const ModelOptions& options, std::vector<FormatRule> rules, std::uint64_t seed);

  /// Hidden states [batch, positions, width].
  torch::Tensor encode(const ModelInput& input, const Context& context);
  /// classifier: [batch, labels]; token heads: [m, vocabulary].
  torch::Tensor logits(const ModelInput& input, const Context& context);

  /// Where a value that is not finite first appears: "parameter X", "output of encoder.2.ffn", "gradient of
  /// X"; empty when nowhere. Reads every value on the host: for diagnosis.
  std::string first_not_finite(const ModelInput& input, Context context);

  const ModelOptions& options() const { return options_; }
  /// Every layer whose format a rule can decide, in order of the forward.
  std::vector<LayerInfo> layers() const;
  /// The tensor trains among them, by layer name.
  std::vector<weights::NamedTensorTrain> trains() const;
  /// Which weights die with which others, and which may die at all.
  weights::Dependencies dependencies() const;

 private:
  torch::Tensor pool(const torch::Tensor& hidden, const Context& context);
  ModelOptions options_;
  std::vector<std::pair<std::string, std::shared_ptr<LinearBase>>> linears_;
  std::shared_ptr<TableBase> word_;
  torch::Tensor position_, segment_;
  std::shared_ptr<LayerNorm> embedding_norm_, final_norm_, transform_norm_;
  std::vector<std::shared_ptr<EncoderLayer>> encoder_;
  std::shared_ptr<LinearBase> pooler_, transform_, head_;
};

/// Exact sizes of a model.
struct ModelSize {
  std::int64_t total = 0;        ///< every parameter
  std::int64_t cores = 0;        ///< entries of tensor-train cores
  std::int64_t rank_scales = 0;  ///< entries of rank scales
  std::int64_t other = 0;        ///< the rest, uncompressed layers included
  std::int64_t dense_total = 0;  ///< of the same model with every layer dense
  double compression() const { return static_cast<double>(dense_total) / static_cast<double>(total); }
};
ModelSize model_size(const Model& model);

/// Sum of the cross-entropies in nats, and the number of targets that are right. logits [m, classes],
/// targets [m] int64.
struct LossSum {
  torch::Tensor loss;     ///< scalar, with graph
  torch::Tensor correct;  ///< scalar int64
};
LossSum cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& targets);

}  // namespace comera::nn
