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
