#include "test_data.h"

#include <comera/base/error.h>
#include <comera/train/recipe.h>
#include <comera/train/trainer.h>

#include <gtest/gtest.h>

#include <filesystem>

using namespace comera;
using namespace comera::train;

namespace {

// The message of the Error that `text` must give.
std::string message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "r.toml", overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(Recipe, UnknownKeysNameTheNearestAndTheLine) {
  EXPECT_EQ(message("[model]\nlayer = 2\n"),
            "r.toml:2: unknown key 'model.layer'; did you mean 'model.layers'?");
  EXPECT_EQ(message("[train]\nlearning_rat = 1.0\n"),
            "r.toml:2: unknown key 'train.learning_rat'; did you mean 'train.learning_rate'?");
  EXPECT_NE(message("[moodel]\nlayers = 2\n").find("unknown key 'moodel'"), std::string::npos);
  EXPECT_NE(message("[[layers]]\nmatch = \"*\"\nrank = 3\n").find("did you mean 'ranks'"), std::string::npos);
  EXPECT_NE(message("", {"train.stepz=3"}).find("did you mean 'train.steps'"), std::string::npos);
}

TEST(Recipe, WrongTypesAndValuesAreRefused) {
  EXPECT_EQ(message("[model]\nlayers = \"two\"\n").substr(0, 9), "r.toml:2:");
  EXPECT_EQ(message("[model]\nwidth = 2.5\n"), "r.toml:2: model.width must be a whole number");
  EXPECT_EQ(message("[model]\nnorm = \"middle\"\n"),
            "r.toml:2: model.norm cannot be 'middle'; use one of post, pre");
  EXPECT_NE(message("[model]\nheads = 5\n").find("divisor"), std::string::npos);
  EXPECT_NE(message("[model]\ndropout = 1.0\n"), "no error");
  EXPECT_NE(message("[train]\nsteps = 0\n"), "no error");
  EXPECT_NE(message("[train]\nlearning_rate = nan\n"), "no error");
  EXPECT_NE(message("[train]\nmicro_batches = 5\n").find("divisor"), std::string::npos);
  EXPECT_NE(message("[[layers]]\nformat = \"compressed\"\n").find("needs match"), std::string::npos);
  EXPECT_NE(message("[[layers]]\nmatch = \"a\"\nformat = \"compressed\"\n").find("needs ranks"),
            std::string::npos);
  EXPECT_NE(message("layers = 3\n"), "no error");
  EXPECT_NE(message("[model\n"), "no error");
  EXPECT_NE(message("name = \"\xFF\"\n").find("UTF-8"), std::string::npos);
  EXPECT_NE(message("a = " + std::string(100'000, '[')).find("nested"), std::string::npos);
  EXPECT_EQ(message("# " + std::string(100'000, '[')), "no error");
  std::string dots = "a";
  for (int i = 0; i < 400'000; ++i) dots += ".a";
  EXPECT_NE(message("\n" + dots + " = 1").find("r.toml:2: more than 256 dots"), std::string::npos);
  EXPECT_NE(message("[rank]\nearly_end = 0.1\n").find("rank.early_end"), std::string::npos);
  EXPECT_NE(message("[train]\nsteps = \"1.5\"\n").find("whole number"), std::string::npos);
  EXPECT_NE(message("[train]\nbatch_size = 1000000000000\n").find("from 1 to"), std::string::npos);
  EXPECT_NE(message("[[layers]]\nmatch = \"a\"\nformat = \"compressed\"\nranks = 0\n").find("may_die"),
            std::string::npos);
}

TEST(Recipe, OverridesTakeTomlValuesAndBareWords) {
  const Recipe recipe =
      parse_recipe("", "r",
                   {"model.layers=2", "train.learning_rate=1e-3", "data.train=a/b c.tsv",
                    "model.pooler=false", "rank.target_parameters=\"500k\"", "model.norm=pre"});
  EXPECT_EQ(recipe.model.layers, 2);
  EXPECT_EQ(recipe.train.learning_rate, 1e-3);
  EXPECT_EQ(recipe.data.train, std::vector<std::string>{"a/b c.tsv"});
  EXPECT_FALSE(recipe.model.pooler);
  EXPECT_EQ(recipe.rank.target_parameters, 500'000);
  EXPECT_NE(message("", {"model.layers"}).find("key=value"), std::string::npos);
}

TEST(Recipe, TheResolvedCopyReadsBackEqual) {
  const Recipe recipe = parse_recipe(
      "name = \"a \\\"quoted\\\" name\\n\"\n[train]\nlearning_rate = 3e-7\n"
      "[[layers]]\nmatch = \"x.*\"\nformat = \"compressed\"\nin = [4, 4]\nranks = 8\n",
      "r");
  EXPECT_EQ(to_toml(parse_recipe(to_toml(recipe), "copy")), to_toml(recipe));
  EXPECT_EQ(parse_recipe(to_toml(recipe), "copy").train.learning_rate, 3e-7);
}

TEST(Recipe, HelpListsEveryKeyWithItsDefault) {
  std::set<std::string> keys;
  for (const FieldHelp& field : recipe_help()) {
    EXPECT_FALSE(field.meaning.empty()) << field.key;
    EXPECT_TRUE(keys.insert(field.key).second);
  }
  EXPECT_TRUE(keys.count("train.steps"));
}

TEST(Recipe, EveryShippedRecipeIsValidAndItsModelBuilds) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(COMERA_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++found;
    const Recipe recipe = read_recipe(entry.path());
    const Json json = dry_run(recipe, nullptr);
    EXPECT_GT(json["compression"].get<double>(), 5) << entry.path();
    EXPECT_GT(json["layers"].size(), 5u);
    for (const char* key : {"total", "cores", "rank_scales", "other", "dense_total"})
      EXPECT_TRUE(json["parameters"].contains(key)) << key;
    for (const char* key : {"name", "format", "digits", "ranks", "parameters", "dense_parameters", "warning"})
      EXPECT_TRUE(json["layers"][0].contains(key)) << key;
  }
  EXPECT_GE(found, 5);
}
