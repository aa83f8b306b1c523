#include "small_task.h"

#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/base/json.h>
#include <comera/base/machine.h>
#include <comera/exec/profile.h>
#include <comera/ops/implementation.h>
#include <comera/train/memory.h>
#include <comera/train/saved_model.h>
#include <comera/train/trainer.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::train;

namespace {

std::vector<torch::Tensor> values(Trainer& trainer) {
  std::vector<torch::Tensor> result;
  for (const auto& p : trainer.model().parameters()) result.push_back(p.detach().clone());
  return result;
}

void run_to(Trainer& trainer, std::int64_t step) {
  while (trainer.steps() < step) trainer.step();
}

bool same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!torch::equal(a[i], b[i])) return false;
  return true;
}

}  // namespace

// 2n steps = n steps, save, load in a new trainer, n steps: every bit, across a cut to a target.
TEST(Trainer, ResumeIsBitwiseAcrossACut) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const Recipe recipe = test::small_recipe("", {"rank.target_parameters=1500", "rank.early_end=0.3"});
  Trainer whole(recipe, task);
  run_to(whole, 60);
  for (const std::int64_t stop : {7, 20, 35, 59}) {
    Trainer first(recipe, task);
    run_to(first, stop);
    io::save_checkpoint(folder / "x.ckpt", first.save());
    const io::Checkpoint saved = io::load_checkpoint(folder / "x.ckpt");
    Trainer second(recipe, task, false, &saved);
    EXPECT_EQ(second.steps(), stop);
    run_to(second, 60);
    EXPECT_TRUE(same(values(whole), values(second))) << "stopped at " << stop;
  }
  EXPECT_LE(nn::model_size(whole.model()).cores + nn::model_size(whole.model()).rank_scales, 1500);
}

// The plans in use are part of a run: a machine that is measured anew in between changes no bit.
TEST(Trainer, ResumeIsBitwiseWithAnotherProfile) {
  if (ops::use_reference()) GTEST_SKIP() << "no layer has a plan then";
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const Recipe recipe = test::small_recipe("", {"data.cache=" + (folder / "cache").string()});
  const auto measured = [&](double single, double batched, double start) {
    plan::Profile profile = plan::default_profile();
    profile.machine = cpu_name();
    profile.threads = torch::get_num_threads();
    for (double& rate : profile.single.rates) rate = single;
    for (double& rate : profile.batched.rates) rate = batched;
    profile.start_seconds = start;
    plan::save_profile(profile, exec::profile_path(recipe.data.cache, plan::DType::float32));
  };
  measured(1e7, 1e13, 1e-9);  // batches are what is fast
  Trainer whole(recipe, task), first(recipe, task);
  run_to(whole, 40);
  run_to(first, 15);
  const io::Checkpoint saved = first.save();
  bool planned = false;
  for (const Json& entry : saved.state["plans"]["plans"])
    planned = planned || !entry["two_groups"].get<bool>();
  EXPECT_TRUE(planned);

  measured(1e13, 1e7, 1e-5);
  Trainer second(recipe, task, false, &saved), fresh(recipe, task);
  run_to(second, 40);  // ranks are cut, so that more is planned
  EXPECT_TRUE(same(values(whole), values(second)));
  run_to(fresh, 40);
  EXPECT_FALSE(same(values(whole), values(fresh))) << "the other profile would have changed bits";
}

TEST(Trainer, TheSameSeedGivesTheSameRunForAnyThreadCount) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const int threads_before = torch::get_num_threads();
  const auto trained = [&](const std::string& seed, int threads) {
    torch::set_num_threads(threads);
    Trainer trainer(test::small_recipe("", {"train.seed=" + seed, "train.batch_size=150"}), task);
    run_to(trainer, 25);
    return values(trainer);
  };
  const auto expected = trained("1", 1);
  EXPECT_TRUE(same(trained("1", 1), expected));
  EXPECT_FALSE(same(trained("2", 1), expected));
  if (!ops::use_reference())
    for (const int threads : {2, 3})
      EXPECT_TRUE(same(trained("1", threads), expected)) << threads << " threads";
  torch::set_num_threads(threads_before);
}

TEST(Trainer, MicroBatchesEqualOneBatch) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  Trainer one(test::small_recipe(), task), four(test::small_recipe("", {"train.micro_batches=4"}), task);
  for (int i = 0; i < 5; ++i) {
    const StepRecord a = one.step(), b = four.step();
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    EXPECT_EQ(a.accuracy, b.accuracy);
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4 * (1 + a.gradient_norm));
  }
}

TEST(Trainer, OverfitsOneBatchToZero) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  Trainer trainer(test::small_recipe("", {"train.steps=250", "rank.adapt=false"}), task,
                  /*overfit_batch=*/true);
  double loss = 0;
  while (trainer.steps() < 250) loss = trainer.step().loss;
  EXPECT_LT(loss, 0.02);
}

TEST(Trainer, LearnsTheTaskAndBeatsTheBaseline) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  Trainer trainer(test::small_recipe("", {"train.steps=200"}), task);
  run_to(trainer, 200);
  const Evaluation evaluation = trainer.evaluate();
  EXPECT_GT(evaluation.main().value, evaluation.main().baseline + 0.3);
}

TEST(Trainer, ALossThatIsNotFiniteStopsWithTheCulpritAndTheWeightsAsTheyWere) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  Trainer trainer(test::small_recipe("", {"rank.adapt=false"}), task);
  run_to(trainer, 3);
  {
    torch::NoGradGuard no_grad;
    for (auto& p : trainer.model().named_parameters())
      if (p.key() == "encoder.1.ffn.up.bias") p.value()[0] = std::numeric_limits<float>::quiet_NaN();
  }
  const auto before = values(trainer);
  try {
    trainer.step();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("encoder.1.ffn.up.bias"), std::string::npos) << error.what();
  }
  const auto after = values(trainer);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(torch::allclose(before[i], after[i], 0, 0, true));
}

TEST(Trainer, TokenHeadsTrain) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder, /*labelled=*/false);
  for (const char* head : {"next_token", "masked"}) {
    Recipe recipe =
        test::small_recipe("", {fmt::format("model.head={}", head), "data.source=text", "rank.adapt=false"});
    recipe.layers.pop_back();  // the pooler, which only a classifier has
    Trainer trainer(recipe, task);
    const double first = trainer.step().loss;
    run_to(trainer, 60);
    EXPECT_LT(trainer.step().loss, first) << head;
    EXPECT_LT(trainer.evaluate().main().value, 32) << head;
  }
}

TEST(Trainer, CheckpointsOfOtherDataAreRefused) {
  test::TemporaryFolder folder, other;
  const Task task = test::small_task(folder);
  Trainer trainer(test::small_recipe(), task);
  const io::Checkpoint saved = trainer.save();
  Task changed = test::small_task(other);
  changed.train = test::small_dataset(other / "else.data", 300, 3);
  EXPECT_THROW(Trainer(test::small_recipe(), changed, false, &saved), Error);
}

TEST(Run, LeavesAllFilesAndASummaryWithTheAgreedKeys) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const Recipe recipe =
      test::small_recipe("", {"train.steps=30", "train.evaluate_every=10", "train.save_every=10"});
  RunOptions options;
  options.out = folder / "run";
  options.say = [](const std::string&) {};
  const Json summary = run_training(recipe, task, options);
  for (const char* key :
       {"metric", "baseline_metric", "parameters", "compression", "step_seconds", "peak_bytes", "ranks"})
    EXPECT_TRUE(summary.contains(key)) << key;
  EXPECT_TRUE(summary["step_seconds"].contains("first") && summary["step_seconds"].contains("last"));
  for (const char* file : {"recipe.toml", "metrics.jsonl", "metrics.csv", "events.jsonl", "last.ckpt",
                           "best.ckpt", "summary.json"})
    EXPECT_TRUE(std::filesystem::exists(options.out / file)) << file;
  EXPECT_EQ(read_json(options.out / "summary.json")["steps"], 30);

  const SavedModel saved = load_model(options.out / "last.ckpt");
  EXPECT_EQ(saved.labels, task.labels);
  EXPECT_EQ(nn::model_size(*saved.model).total, summary["parameters"]["total"].get<std::int64_t>());
  EXPECT_EQ(saved.tokenizer->vocabulary_size(), 32);
}

// A stop in the middle saves; going on gives the same end as never having stopped, and logs that read as one
// run.
TEST(Run, AStoppedRunGoesOnToTheSameEnd) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const Recipe recipe = test::small_recipe("", {"train.steps=30"});
  RunOptions options;
  options.say = [](const std::string&) {};
  options.out = folder / "whole";
  run_training(recipe, task, options);

  std::atomic<bool> stop{false};
  options.out = folder / "stopped";
  options.stop = &stop;
  int lines = 0;
  options.say = [&](const std::string&) { stop = ++lines >= 1; };  // after the first progress line, step 10
  EXPECT_TRUE(run_training(recipe, task, options)["interrupted"].get<bool>());
  options.stop = nullptr;
  options.resume = true;
  options.say = [](const std::string&) {};
  const Json end = run_training(recipe, task, options);
  EXPECT_FALSE(end["interrupted"].get<bool>());
  const auto whole = io::load_checkpoint(folder / "whole/last.ckpt"),
             resumed = io::load_checkpoint(folder / "stopped/last.ckpt");
  ASSERT_EQ(whole.tensors.size(), resumed.tensors.size());
  for (std::size_t i = 0; i < whole.tensors.size(); ++i)
    EXPECT_TRUE(torch::equal(whole.tensors[i].second, resumed.tensors[i].second)) << whole.tensors[i].first;
  const std::string metrics = read_file(folder / "stopped/metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 30);
}

TEST(Run, ResumingWithAnotherRecipeNamesTheDifference) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  RunOptions options;
  options.out = folder / "run";
  options.say = [](const std::string&) {};
  run_training(test::small_recipe("", {"train.steps=5"}), task, options);
  options.resume = true;
  try {
    run_training(test::small_recipe("", {"train.steps=5", "train.learning_rate=0.5"}), task, options);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("learning_rate = 0.5"), std::string::npos) << error.what();
  }
}

// Whatever a checkpoint's state holds in place of what it should, the message names the file.
TEST(Run, ResumingFromAnOddStateNamesTheFile) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  const Recipe recipe = test::small_recipe("", {"train.steps=3"});
  const RunOptions options{.out = folder / "run", .say = [](const std::string&) {}};
  run_training(recipe, task, options);
  const io::Checkpoint sound = io::load_checkpoint(folder / "run" / "last.ckpt");
  RunOptions resume = options;
  resume.resume = true;
  int tried = 0;
  for (const auto& [key, value] : sound.state.items()) {
    for (const Json& odd : {Json("odd"), Json(-1), Json::array({3}), Json::object({{"odd", 1}}), Json()}) {
      if (key == "train_seconds" || (odd.is_null() && (key == "best" || key == "first_steps"))) continue;
      io::Checkpoint crafted = sound;
      crafted.state[key] = odd;
      io::save_checkpoint(folder / "run" / "last.ckpt", crafted);
      try {
        run_training(recipe, task, resume);
        ADD_FAILURE() << key << " = " << odd.dump() << " was taken";
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_TRUE(text.starts_with((folder / "run" / "last.ckpt").string() + ":")) << key << ": " << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 40);
}

TEST(SavedModel, DamagedAndForeignCheckpointsAreRefused) {
  test::TemporaryFolder folder;
  const Task task = test::small_task(folder);
  Trainer trainer(test::small_recipe(), task);
  io::Checkpoint checkpoint = trainer.save();
  for (auto& [name, tensor] : checkpoint.tensors)
    if (name == "model.encoder.0.ffn.up.cores.1") tensor = torch::zeros({1, 2, 3});
  io::save_checkpoint(folder / "bad.ckpt", checkpoint);
  EXPECT_THROW(load_model(folder / "bad.ckpt"), Error);
  checkpoint = trainer.save();
  checkpoint.state.erase("recipe");
  io::save_checkpoint(folder / "bad.ckpt", checkpoint);
  EXPECT_THROW(load_model(folder / "bad.ckpt"), Error);
  checkpoint = trainer.save();
  checkpoint.state["recipe"] = "[model]\nwidth = 1099511627776\nheads = 1\n";
  io::save_checkpoint(folder / "bad.ckpt", checkpoint);
  EXPECT_THROW(load_model(folder / "bad.ckpt"), Error);
}
