#include <comera/base/error.h>
#include <comera/nn/layer_format.h>

#include <gtest/gtest.h>

using namespace comera;
using namespace comera::nn;
using List = std::vector<std::int64_t>;

TEST(LayerFormats, FirstMatchingRuleDecidesAndDenseIsTheDefault) {
  LayerFormats formats(std::vector<FormatRule>{{"encoder.0.*", {LayerKind::dense}},
                                               {"encoder.*", {LayerKind::compressed, {}, {}, 2, {8}}}});
  EXPECT_EQ(formats.find("encoder.0.ffn.up").kind, LayerKind::dense);
  EXPECT_EQ(formats.find("encoder.1.ffn.up").kind, LayerKind::compressed);
  EXPECT_EQ(formats.find("head").kind, LayerKind::dense);
  formats.check_all_used();
}

TEST(LayerFormats, ARuleThatMatchesNothingNamesTheNearestLayer) {
  LayerFormats formats(std::vector<FormatRule>{{"encodr.0.query", {}}});
  formats.find("encoder.0.query");
  formats.find("head");
  try {
    formats.check_all_used();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("encoder.0.query"), std::string::npos) << error.what();
  }
}

TEST(LayerFormats, ARuleHiddenByAnEarlierOneIsSaid) {
  LayerFormats formats(std::vector<FormatRule>{{"*", {}}, {"head", {LayerKind::low_rank, {}, {}, 0, {4}}}});
  formats.find("head");
  EXPECT_THROW(formats.check_all_used(), Error);
}

TEST(LinearShape, ChosenDigitsAreBalancedWithTheLargeOnesOutside) {
  const auto shape = linear_shape("x", 768, 3072, {LayerKind::compressed, {}, {}, 3, {30}});
  EXPECT_EQ(shape.row_digits, (List{12, 8, 8}));
  EXPECT_EQ(shape.col_digits, (List{12, 16, 16}));
  EXPECT_EQ(shape.ranks, (List{1, 12, 30, 30, 30, 16, 1}));
}

TEST(LinearShape, LowRankHasOneDigitASide) {
  const auto shape = linear_shape("x", 768, 3072, {LayerKind::low_rank, {}, {}, 0, {30}});
  EXPECT_EQ(shape.parameters(), 30 * (768 + 3072) + 30);
  EXPECT_EQ(table_shape("t", 1000, 64, {LayerKind::low_rank, {}, {}, 0, {8}}).parameters(),
            8 * (1000 + 64) + 8);
}

TEST(LinearShape, APrimeWidthIsSaid) {
  std::string warning;
  linear_shape("x", 509, 512, {LayerKind::compressed, {}, {}, 2, {4}}, &warning);
  EXPECT_NE(warning.find("509"), std::string::npos);
}

TEST(TableShape, RowsArePadded) {
  const auto shape = table_shape("t", 30522, 768, {LayerKind::compressed, {}, {}, 4, {32}});
  EXPECT_EQ(shape.rows, 30522);
  EXPECT_EQ(shape.cols, 768);
}

TEST(LinearShape, MissingRanksAreRefused) {
  EXPECT_THROW(linear_shape("x", 64, 64, {LayerKind::compressed, {}, {}, 2, {}}), Error);
}
