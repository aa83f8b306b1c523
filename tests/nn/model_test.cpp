#include <comera/base/error.h>
#include <comera/nn/factor_scope.h>
#include <comera/nn/model.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::nn;

namespace {

ModelOptions small(Head head = Head::classifier) {
  ModelOptions options;
  options.vocabulary = 50, options.positions = 12, options.segments = 2, options.layers = 2;
  options.encoder = {.width = 16,
                     .heads = 2,
                     .ffn = 24,
                     .norm = NormPlace::pre,
                     .norm_epsilon = 1e-6,
                     .dropout = 0.2,
                     .attention_dropout = 0.2};
  options.head = head;
  options.labels = 4;
  options.pooling = Pooling::mean;
  options.table_std = 1;
  return options;
}

std::vector<FormatRule> compressed() {
  return {{"embedding.word", {LayerKind::compressed, {}, {}, 2, {6}}},
          {"encoder.*", {LayerKind::compressed, {}, {}, 2, {5}}},
          {"pooler", {LayerKind::low_rank, {}, {}, 0, {3}}}};
}

Context context_for(std::vector<std::int64_t> lengths, std::vector<std::int64_t> ids, bool training) {
  Context context;
  context.training = training;
  context.seed = 7, context.step = 3;
  context.lengths = torch::tensor(lengths);
  context.sample_ids = torch::tensor(ids);
  return context;
}

}  // namespace

// The design's counts of the reference configuration, exactly.
TEST(Model, ReferenceConfigurationHasTheDesignsCounts) {
  ModelOptions options;  // the defaults are the reference
  const LayerFormat square{LayerKind::compressed, {12, 8, 8}, {8, 8, 12}, 0, {12, 30, 30, 30, 12}};
  const Model model(
      options,
      {{"embedding.word", {LayerKind::compressed, {16, 20, 10, 10}, {4, 4, 8, 6}, 0, {32}}},
       {"encoder.*.attention.*", square},
       {"encoder.*.ffn.up", {LayerKind::compressed, {12, 8, 8}, {12, 16, 16}, 0, {12, 30, 30, 30, 16}}},
       {"encoder.*.ffn.down", {LayerKind::compressed, {16, 16, 12}, {8, 8, 12}, 0, {16, 30, 30, 30, 12}}},
       {"pooler", square}},
      1);
  const ModelSize size = model_size(model);
  EXPECT_EQ(size.cores, 1'026'528);
  EXPECT_EQ(size.rank_scales, 4'362);
  EXPECT_EQ(size.other, 459'267);
  EXPECT_EQ(size.total, 1'026'528 + 4'362 + 459'267);
  EXPECT_NEAR(static_cast<double>(size.dense_total), 66.96e6, 0.005e6);
}

TEST(Model, DenseTotalIsTheCountOfTheDenseModel) {
  const Model dense(small(), {}, 1), tt(small(), compressed(), 1);
  EXPECT_EQ(model_size(tt).dense_total, model_size(dense).total);
  EXPECT_EQ(model_size(dense).compression(), 1.0);
}

TEST(Model, CheckModelRefusesWhatTheModelRefuses) {
  EXPECT_NO_THROW(check_model(small(), compressed()));
  const auto refused = [](const ModelOptions& options, std::vector<FormatRule> rules,
                          const std::string& says) {
    for (const bool built : {false, true}) {
      try {
        built ? static_cast<void>(Model(options, rules, 1)) : check_model(options, rules);
        ADD_FAILURE() << "not refused: " << says;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
      }
    }
  };
  for (const Head head : {Head::classifier, Head::masked, Head::next_token}) {
    refused(small(head), {{"encodr.*", {}}}, "no layer matches");
    refused(small(head), {{"head", {LayerKind::compressed, {4, 4}, {}, 0, {1, 2}}}}, "[head]");
  }
  ModelOptions large = small();
  large.encoder.width = large.encoder.ffn = 1 << 20;
  refused(large, {}, "this machine has");
}

TEST(Model, ABadChoiceOfDigitsIsToldWithItsLayer) {
  ModelOptions options = small();
  options.encoder.ffn = 509;
  const auto infos = Model(options, compressed(), 1).layers();
  for (const LayerInfo& layer : infos)
    EXPECT_EQ(layer.warning.find("509") != std::string::npos, layer.name.find(".ffn.") != std::string::npos)
        << layer.name << ": " << layer.warning;
}

TEST(Model, ParameterNamesAreStable) {
  const Model model(small(), compressed(), 1);
  std::set<std::string> names;
  for (const auto& p : model.named_parameters()) EXPECT_TRUE(names.insert(p.key()).second);
  for (const char* name : {"embedding.word.cores.0", "embedding.word.scales.0", "embedding.position",
                           "encoder.1.attention.query.cores.3", "encoder.0.ffn.up.bias", "pooler.scales.0",
                           "head.weight", "final_norm.weight"})
    EXPECT_TRUE(names.count(name)) << name;
}

// A padded batch gives each sample what it gets alone: in evaluation, and in training with its random masks.
TEST(Model, PaddingAndBatchCompositionDoNotChangeASample) {
  for (const bool training : {false, true}) {
    Model model(small(), compressed(), 1);
    model.to(torch::kFloat64);
    torch::manual_seed(1);
    const auto tokens = torch::randint(0, 50, {2, 9});
    ModelInput both{tokens, torch::zeros_like(tokens), {}};
    const auto together = model.logits(both, context_for({9, 5}, {100, 101}, training));
    ModelInput alone{tokens.slice(0, 1, 2).slice(1, 0, 5), torch::zeros({1, 5}, torch::kInt64), {}};
    const auto single = model.logits(alone, context_for({5}, {101}, training));
    EXPECT_TRUE(torch::allclose(together[1], single[0], 1e-10, 1e-10)) << "training " << training;
  }
}

TEST(Model, ACausalModelDoesNotSeeTheFuture) {
  Model model(small(Head::next_token), {}, 1);
  const auto tokens = torch::randint(1, 50, {1, 8});
  auto changed = tokens.clone();
  changed[0][7] = (changed[0][7] + 1) % 50;
  const auto places = torch::arange(7);
  const auto a = model.logits({tokens, {}, places}, context_for({8}, {0}, false));
  const auto b = model.logits({changed, {}, places}, context_for({8}, {0}, false));
  EXPECT_TRUE(torch::equal(a, b));
}

TEST(Model, ABatchWithoutTargetsHasLossAndGradientZero) {
  Model model(small(Head::masked), {}, 1);
  const auto tokens = torch::randint(1, 50, {2, 8});
  const auto sums = cross_entropy_sum(
      model.logits({tokens, {}, torch::empty({0}, torch::kInt64)}, context_for({8, 8}, {0, 1}, true)),
      torch::empty({0}, torch::kInt64));
  sums.loss.backward();
  EXPECT_EQ(sums.loss.item<float>(), 0);
  for (const auto& p : model.parameters())
    if (p.grad().defined()) EXPECT_EQ(p.grad().abs().sum().item<float>(), 0);
}

TEST(Model, TheSameSeedGivesTheSameStart) {
  const Model a(small(), compressed(), 5), b(small(), compressed(), 5), c(small(), compressed(), 6);
  bool differs = false;
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(a.parameters()[i], b.parameters()[i]));
    differs |= !torch::equal(a.parameters()[i], c.parameters()[i]);
  }
  EXPECT_TRUE(differs);
}

TEST(Model, NamesTheFirstPartThatIsNotFinite) {
  Model model(small(), compressed(), 1);
  const auto tokens = torch::randint(1, 50, {1, 8});
  ModelInput input{tokens, {}, {}};
  EXPECT_EQ(model.first_not_finite(input, context_for({8}, {0}, true)), "");
  torch::NoGradGuard no_grad;
  for (auto& p : model.named_parameters())
    if (p.key() == "encoder.1.ffn.up.bias") p.value()[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(model.first_not_finite(input, context_for({8}, {0}, true)), "parameter encoder.1.ffn.up.bias");
  for (auto& p : model.named_parameters()) {
    if (p.key() == "encoder.1.ffn.up.bias") p.value()[0] = 0;
    if (p.key() == "encoder.0.ffn.down.bias") p.value().fill_(3e38f);
  }
  EXPECT_EQ(model.first_not_finite(input, context_for({8}, {0}, true)).substr(0, 19), "output of encoder.1");
}

TEST(Model, TooManyTokensAreRefused) {
  Model model(small(), {}, 1);
  EXPECT_THROW(model.logits({torch::zeros({1, 13}, torch::kInt64), {}, {}}, context_for({13}, {0}, false)),
               Error);
}

TEST(Model, DeadLayersWork) {
  Model model(small(), compressed(), 1);
  for (auto& [name, weight] : model.trains()) {
    if (!name.ends_with("ffn.down")) continue;
    auto shape = weight.shape();
    std::vector<torch::Tensor> cores, scales;
    for (std::int64_t k = 0; k < shape.bonds(); ++k)
      scales.push_back(torch::ones({0})), shape.ranks[k + 1] = 0;
    for (std::int64_t k = 0; k < shape.order(); ++k) cores.push_back(torch::zeros(shape.core_shape(k)));
    weight.replace(cores, scales);
  }
  FactorScope scope(model);
  const auto tokens = torch::randint(1, 50, {2, 8});
  model.logits({tokens, {}, {}}, context_for({8, 8}, {0, 1}, true)).sum().backward();
  scope.pull_back();
  for (const auto& p : model.named_parameters())
    if (p.key() == "encoder.0.ffn.down.bias") EXPECT_GT(p.value().grad().abs().sum().item<float>(), 0);
}
