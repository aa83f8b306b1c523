#include <comera/base/error.h>
#include <comera/base/json.h>

#include <gtest/gtest.h>

using namespace comera;

TEST(Json, ErrorsNameSourceAndLine) {
  EXPECT_EQ(parse_json("{\"b\": 1, \"a\": [2]}", "x")["a"][0], 2);
  for (const std::string& bad : {std::string("{\n\"a\": }"), std::string("{\n\"a\": \"\xFF\"}")}) {
    try {
      parse_json(bad, "file.json");
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("file.json:2", 0), 0u) << error.what();
    }
  }
  EXPECT_THROW(parse_json("", "x"), Error);
  EXPECT_THROW(parse_json(std::string("{}\0", 3), "x"), Error);
  EXPECT_THROW(parse_json(std::string(100'000, '['), "x"), Error);
}

TEST(Json, KeepsValuesAndTheOrderOfKeys) {
  const std::string text =
      R"({"z":[1,-2,2.5,[],{}],"a":{"b":null,"c":true},"m":"x\u00e9","big":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "x"), Json::parse(text));
  EXPECT_EQ(parse_json(text, "x").dump(), Json::parse(text).dump());
  EXPECT_EQ(parse_json("3", "x"), 3);
}

TEST(Json, AKeyGivenTwiceIsRefused) {
  EXPECT_THROW(parse_json(R"({"a":1,"b":2,"a":1})", "x"), Error);
  EXPECT_EQ(parse_json(R"({"a":{"a":[{"a":1},{"a":2}]}})", "x")["a"]["a"].size(), 2u);
}

TEST(Json, ALargeObjectTakesTimeInProportion) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text.back() = '}';
  EXPECT_EQ(parse_json(text, "x").size(), 300'000u);
}
