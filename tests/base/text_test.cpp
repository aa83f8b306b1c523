#include <comera/base/error.h>
#include <comera/base/text.h>

#include <gtest/gtest.h>

using namespace comera;

TEST(Utf8, AcceptsValidAndFindsTheFirstBadByte) {
  EXPECT_FALSE(invalid_utf8("plain"));
  EXPECT_FALSE(invalid_utf8("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
  EXPECT_EQ(invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(invalid_utf8("a\xC3"), 1u);             // cut short
  EXPECT_EQ(invalid_utf8("\xC0\xAF"), 0u);          // overlong
  EXPECT_EQ(invalid_utf8("x\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(invalid_utf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(invalid_utf8("\xE0\x9F\xBF"), 0u);      // overlong, three bytes
}

TEST(NearestName, FindsATypoAndGivesUpOnNoise) {
  const std::vector<std::string> known{"model.layers", "model.width", "train.steps"};
  EXPECT_EQ(nearest_name("model.layer", known), "model.layers");
  EXPECT_EQ(nearest_name("train.step", known), "train.steps");
  EXPECT_EQ(nearest_name("zzzzzz", known), "");
}

TEST(Pattern, StarsMatchAnyRun) {
  EXPECT_TRUE(matches_pattern("encoder.*.query", "encoder.11.query"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*ffn*", "encoder.0.ffn.up"));
  EXPECT_FALSE(matches_pattern("encoder.*.query", "encoder.1.key"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("a**b", "ab"));
}

TEST(Counts, RoundTripAndRefuse) {
  EXPECT_EQ(parse_count("500k"), 500'000);
  EXPECT_EQ(parse_count("1.5M"), 1'500'000);
  EXPECT_EQ(parse_count("0"), 0);
  EXPECT_EQ(parse_count("0.3M"), 300'000);
  EXPECT_THROW(parse_count("1.5"), Error);
  EXPECT_THROW(parse_count("0.0005k"), Error);
  for (const char* bad : {"", "k", "1x", "-3", "1e99", "nan", "12 k"})
    EXPECT_THROW(parse_count(bad), Error) << bad;
  EXPECT_EQ(format_count(1'500), "1.5k");
  EXPECT_EQ(format_duration(125), "2m05s");
  EXPECT_EQ(format_bytes(212e6), "212.0 MB");
}
