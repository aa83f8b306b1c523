// Every key of a recipe, declared once: visit(recipe, visitor) calls visitor(key, member, meaning) or, for
// text with a fixed set of values, visitor(key, member, meaning, values).
#pragma once

#include <comera/train/recipe.h>

#include <string>
#include <vector>

namespace comera::train {

using Choices = std::vector<std::string>;

template <class RecipeType, class Visitor>
void visit_fields(RecipeType& recipe, Visitor&& visit) {
  visit("name", recipe.name, "name of the recipe, shown in reports");

  auto& m = recipe.model;
  visit("model.head", m.head, "what the model predicts", Choices{"classifier", "masked", "next_token"});
  visit("model.layers", m.layers, "encoder layers");
  visit("model.width", m.width, "hidden width");
  visit("model.heads", m.heads, "attention heads; must divide the width");
  visit("model.ffn", m.ffn, "width of the feed-forward part");
  visit("model.positions", m.positions, "longest sample in tokens");
  visit("model.segments", m.segments, "kinds of segments (2 for text pairs); 0 = none");
  visit("model.norm", m.norm, "layer norm after (as BERT) or before each part", Choices{"post", "pre"});
  visit("model.norm_epsilon", m.norm_epsilon, "added to the variance in layer norm");
  visit("model.dropout", m.dropout, "share of hidden entries dropped while training, 0 to below 1");
  visit("model.attention_dropout", m.attention_dropout,
        "share of attention probabilities dropped while training");
  visit("model.table_std", m.table_std, "standard deviation of embedding tables at the start");
  visit("model.pooling", m.pooling, "classifier: the first token, or the mean of all",
        Choices{"first", "mean"});
  visit("model.pooler", m.pooler, "classifier: a width x width layer with tanh before the head");
  visit("model.zero_residual", m.zero_residual, "compressed residual outputs start at zero");

  auto& d = recipe.data;
  visit("data.source", d.source,
        "layout of the files: python (functions of the installed packages, no files needed), text (plain "
        "text for "
        "language models), table (columns as named below), or a known one",
        Choices{"python", "text", "table", "nli", "multinli", "sst2", "mrpc", "rte", "qnli", "cola"});
  visit("data.train", d.train, "training files (one, or several for text)");
  visit("data.validation", d.validation, "held-out files");
  visit("data.text", d.text, "table: the text column, or the two of a pair");
  visit("data.label", d.label, "table: the label column");
  visit("data.header", d.header, "table: the first line names the columns; false: they are 1, 2, ...");
  visit("data.labels", d.labels, "class names in order; empty = those of the training file, sorted");
  visit("data.max_length", d.max_length, "tokens a sample, special tokens included; longer ones are cut");
  visit("data.pad_to_max", d.pad_to_max, "pad every batch to max_length instead of to its longest sample");
  visit("data.bucket", d.bucket, "batches of samples of similar length");
  visit("data.tokenizer", d.tokenizer,
        "wordpiece (needs data.vocabulary) or sentencepiece (trained on the data)",
        Choices{"wordpiece", "sentencepiece"});
  visit("data.vocabulary", d.vocabulary, "wordpiece: vocabulary file, one token a line");
  visit("data.lowercase", d.lowercase, "wordpiece: lower-case and strip accents");
  visit("data.vocabulary_size", d.vocabulary_size, "sentencepiece: tokens");
  visit("data.mask_share", d.mask_share, "masked head: share of tokens to predict");
  visit("data.python", d.python,
        "python source: interpreter whose packages are read; empty = COMERA_PYTHON or python3");
  visit("data.cache", d.cache, "folder of prepared data");

  auto& t = recipe.train;
  visit("train.method", t.method, "compressed (the [[layers]] rules) or dense (the same model without them)",
        Choices{"compressed", "dense"});
  visit("train.steps", t.steps, "optimiser steps");
  visit("train.batch_size", t.batch_size, "samples a step");
  visit("train.micro_batches", t.micro_batches,
        "parts a step's batch is computed in; must divide batch_size");
  visit("train.seed", t.seed, "decides starting values, order and dropout");
  visit("train.learning_rate", t.learning_rate, "peak learning rate");
  visit("train.core_learning_rate", t.core_learning_rate,
        "peak rate of tensor-train cores; 0 = learning_rate");
  visit("train.scale_learning_rate", t.scale_learning_rate,
        "peak rate of rank scales; 0 = large enough to reach zero in the early stage");
  visit("train.weight_decay", t.weight_decay, "decoupled decay of dense matrices a unit of learning rate");
  visit("train.beta1", t.beta1, "AdamW: decay of the first moment");
  visit("train.beta2", t.beta2, "AdamW: decay of the second moment");
  visit("train.epsilon", t.epsilon, "AdamW: added to the root of the second moment");
  visit("train.clip", t.clip, "largest norm of the whole gradient; 0 = no clipping");
  visit("train.warmup", t.warmup, "share of the steps over which the rate rises from 0");
  visit("train.decay", t.decay, "shape of the rate after the warm-up",
        Choices{"cosine", "linear", "constant"});
  visit("train.evaluate_every", t.evaluate_every, "steps between evaluations; 0 = only at the end");
  visit("train.evaluate_samples", t.evaluate_samples,
        "held-out samples an evaluation while training; 0 = all");
  visit("train.save_every", t.save_every, "steps between checkpoints; 0 = only at the end");
  visit("train.log_every", t.log_every, "steps between progress lines");
  visit("train.threads", t.threads, "threads; 0 = OMP_NUM_THREADS or the available cores");
  visit("train.device", t.device, "cpu, cuda or cuda:N");

  auto& r = recipe.rank;
  visit("rank.adapt", r.adapt, "find and cut ranks while training");
  visit("rank.rule", r.rule, "count prices, or the rule of the CoMERA paper",
        Choices{"count_prices", "published"});
  visit("rank.gamma", r.gamma,
        "price of the whole compressible size, as a share of the loss of a uniform guess; 0 = none");
  visit("rank.early_end", r.early_end, "with a target: share of the steps after which cuts towards it begin");
  visit("rank.cut_every", r.cut_every, "steps between cuts");
  visit("rank.target_parameters", r.target_parameters,
        "most compressible parameters (cores and scales) at the end, e.g. \"500k\"; 0 = no target");
  visit("rank.target_bytes", r.target_bytes, "the same in bytes; 0 = no target");
  visit("rank.target_loss", r.target_loss,
        "cut as long as the loss (nats) of a fixed held-out batch stays at or below this; 0 = no target");
  visit("rank.may_die", r.may_die, "layers may be switched off completely (rank 0)");

  visit(
      "plan.mode", recipe.plan.mode,
      "order of a layer's contractions: auto (planned for its ranks and the tokens of a batch) or two_groups "
      "(always the factors left and right of the middle rank)",
      Choices{"auto", "two_groups"});
}

}  // namespace comera::train
