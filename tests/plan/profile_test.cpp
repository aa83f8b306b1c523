#include <comera/base/error.h>
#include <comera/base/file.h>
#include <comera/plan/contraction.h>
#include <comera/plan/cost.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

using namespace comera;
using namespace comera::plan;

namespace {

class ProfileFile : public testing::Test {
 protected:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / "comera_plan_profile_test.json";
  void TearDown() override { std::filesystem::remove(path_); }

  bool refused(const std::string& content) {
    write_file(path_, content);
    try {
      load_profile(path_, "default", 2, DType::float32);
      return false;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return true;
    }
  }
};

}  // namespace

TEST_F(ProfileFile, ComesBackAsItWas) {
  Profile profile = default_profile();
  profile.bandwidth = 1.0 / 3 * 1e10;
  profile.rates["gelu"] = 3e9;
  save_profile(profile, path_);
  EXPECT_EQ(load_profile(path_, "default", 2, DType::float32), profile);
}

TEST_F(ProfileFile, ForeignOnesAreRefused) {
  save_profile(default_profile(), path_);
  EXPECT_THROW(load_profile(path_, "another", 2, DType::float32), Error);
  EXPECT_THROW(load_profile(path_, "default", 3, DType::float32), Error);
  EXPECT_THROW(load_profile(path_, "default", 2, DType::float64), Error);
  std::filesystem::remove(path_);
  EXPECT_THROW(load_profile(path_, "default", 2, DType::float32), Error);
}

TEST_F(ProfileFile, CorruptOnesAreRefused) {
  const std::string good = to_json(default_profile()).dump();
  EXPECT_FALSE(refused(good));
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused("3"));
  EXPECT_TRUE(refused(good.substr(0, good.size() / 2)));
  // Each member taken away, or replaced by something of another kind.
  const Json json = to_json(default_profile());
  for (const auto& [key, value] : json.items()) {
    Json without = json;
    without.erase(key);
    EXPECT_TRUE(refused(without.dump())) << key;
    for (const Json& other :
         {Json(nullptr), Json(-1), Json("x"), Json::array(), Json::array({1, 2}), Json(1e300 * 10)}) {
      if (key == "rates" && other.empty() && !other.is_null()) continue;  // no rates are fine
      Json changed = json;
      changed[key] = other;
      EXPECT_TRUE(refused(changed.dump())) << key << " " << other;
    }
  }
  const auto edited = [&](const auto& edit) {
    Json changed = json;
    edit(changed);
    return refused(changed.dump());
  };
  EXPECT_TRUE(edited([](Json& j) { j["single"]["m"][0] = 0; }));
  EXPECT_TRUE(edited([](Json& j) { j["single"]["m"][1] = 1; }));
  EXPECT_TRUE(edited([](Json& j) { j["batched"]["n"] = Json::array(); }));
  EXPECT_TRUE(edited([](Json& j) { j["batched"]["multiply_adds_per_second"].erase(0); }));
  EXPECT_TRUE(edited([](Json& j) { j["batched"]["multiply_adds_per_second"][3] = -1.0; }));
  EXPECT_TRUE(edited([](Json& j) { j["batched"]["multiply_adds_per_second"][3] = "fast"; }));
  EXPECT_TRUE(edited([](Json& j) { j["rates"]["gelu"] = 0; }));
  EXPECT_TRUE(edited([](Json& j) { j["version"] = 2; }));
}

TEST(Rates, AreThoseOfTheTableAndBetweenItsPoints) {
  const RateTable table{{1, 4}, {2, 8}, {16}, {1, 2, 4, 16}};
  const RateLookup rates(table);
  EXPECT_DOUBLE_EQ(rates.rate(1, 2, 16), 1);
  EXPECT_DOUBLE_EQ(rates.rate(1, 8, 16), 2);
  EXPECT_DOUBLE_EQ(rates.rate(4, 8, 16), 16);
  EXPECT_DOUBLE_EQ(rates.rate(2, 2, 16), 2) << "halfway between 1 and 4 in logarithms";
  EXPECT_DOUBLE_EQ(rates.rate(4, 4, 16), 8);
  EXPECT_DOUBLE_EQ(rates.rate(100, 100, 1000), 16) << "the nearest outside";
  EXPECT_DOUBLE_EQ(rates.rate(1, 1, 1), 1);
  EXPECT_DOUBLE_EQ(rates.highest(), 16);
}

TEST(Costs, TimeHasAStartARateABandwidthAndCopies) {
  Profile profile = default_profile();
  profile.single = {{1}, {1}, {1}, {1e9}};
  profile.batched = {{1}, {1}, {1}, {2e9}};
  profile.bandwidth = 1e9, profile.copy_bandwidth = 5e8, profile.start_seconds = 1e-6;
  const PredictedTime time(profile, DType::float32);
  Work work{1, 100, 100, 100, 30'000};
  EXPECT_NEAR(time.cost(work), 1e-6 + 1e-3, 1e-14) << "its rate";
  work.k = 1, work.elements = 10'200;
  EXPECT_DOUBLE_EQ(time.cost(work), 1e-6 + 40'800e-9) << "its bytes";
  work.copied = 100, work.copies = 1;
  EXPECT_DOUBLE_EQ(time.cost(work), 2e-6 + 40'800e-9 + 800.0 / 5e8);
  EXPECT_NEAR(time.cost({10, 100, 100, 100, 1}), 1e-6 + 1e7 / 2e9, 1e-14) << "batched";
  profile.batched.rates[0] = 1e8;
  EXPECT_NEAR(PredictedTime(profile, DType::float32).cost({10, 100, 100, 100, 1}), 1e-6 + 1e7 / 1e9, 1e-14)
      << "one after the other";
  EXPECT_LE(time.least(1e7, 1), (1 + 1e-12) * time.cost({10, 100, 100, 100, 1}));
  EXPECT_EQ(BytesMoved(DType::float64).cost(work), 8 * (10'200 + 200));
  EXPECT_EQ(MultiplyAdds().cost({2, 3, 4, 5}), 120);
  EXPECT_THROW(parse_goal("speed"), Error);
  EXPECT_THROW(parse_dtype("int8"), Error);
  for (const Goal goal : {Goal::multiply_adds, Goal::bytes, Goal::time, Goal::memory})
    EXPECT_EQ(parse_goal(to_string(goal)), goal);
}

namespace {

// The layer X[b, m1, m2] G1[m1, r1] G2[r1, m2, r2] G3[r2, n1], and the way one of its contractions runs.
struct Chain {
  Network network = layer_network({format::tt({8, 4}, {16}, {5, 6})}, 32, Results::all);
  Openings openings{network};
  PredictedTime time{default_profile(), DType::float32};

  std::string way(Leaves left, Leaves right) const {
    const Way way =
        best_way(openings, openings.open(left), openings.open(right), openings.open(left | right), time);
    return fmt::format("{}{} {} x {} x {}{}{}{}", way.swapped ? "swapped " : "",
                       to_string(network, way.batch), to_string(network, way.m), to_string(network, way.k),
                       to_string(network, way.n), way.copy_left ? " copy left" : "",
                       way.copy_right ? " copy right" : "", way.copy_result ? " copy result" : "");
  }
};

}  // namespace

TEST(Ways, ProductsRunInPlaceWhereTheyCan) {
  const Chain chain;
  EXPECT_EQ(chain.way(0b00010, 0b00100), "[] [m1] x [r1] x [m2, r2]");       // G1 G2
  EXPECT_EQ(chain.way(0b00001, 0b00110), "[] [b] x [m1, m2] x [r2]");        // X (G1 G2)
  EXPECT_EQ(chain.way(0b00001, 0b00010), "swapped [b] [r1] x [m1] x [m2]");  // X G1: a batch of tokens
  EXPECT_EQ(chain.way(0b00001, 0b11000), "[] [m1, m2] x [b] x [r2]");        // X^T (dY G3)
  EXPECT_EQ(chain.way(0b10000, 0b01000), "[] [b] x [n1] x [r2]");            // dY G3^T
}

TEST(Ways, OtherwiseSomethingIsCopied) {
  const Chain chain;
  // dG1 = X[b, m1, m2] E[b, r1, m2]: the sum over b and m2 has m1 or r1 between.
  EXPECT_EQ(chain.way(0b00001, 0b11100), "[] [m1] x [b, m2] x [r1] copy left copy right");
}
