// The judge: what it lets pass and what it must not.
#include "ops/reference/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>

#include <gtest/gtest.h>

namespace fovea::ops::reference {
namespace {

double rounded(double value) {
  return double{to_float(to_bfloat16(static_cast<float>(value)))};
}

/// `count` tiles of a bf16 output of a random matrix, as right as a framework makes it.
std::vector<TileValues> right_tiles(int count) {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal(0.1, 1.0);
  std::vector<TileValues> tiles(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    TileValues& one = tiles[static_cast<std::size_t>(i)];
    one.tile = {kTile * i, 0, kTile, kTile};
    for (std::size_t at = 0; at < one.tile.count(); ++at) {
      one.expected.push_back(normal(engine));
      one.framework.push_back(rounded(one.expected.back()));
      one.actual.push_back(one.framework.back());
      one.unit.push_back(unit_in_last_place(DType::kBF16, one.expected.back()));
    }
  }
  return tiles;
}

TEST(Judge, RightOutputPasses) {
  const Verdict verdict = judge(right_tiles(4), Tolerance{});
  EXPECT_TRUE(verdict.passes()) << verdict.reason;
  EXPECT_GT(verdict.error, 0.0);
  EXPECT_LT(verdict.difference, 1e-5);
}

TEST(Judge, OneNanAnywhereFails) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{4711}, std::size_t{128 * 128 - 1}}) {
    std::vector<TileValues> tiles = right_tiles(3);
    tiles[1].actual[at] = std::nan("");
    const Verdict verdict = judge(tiles, Tolerance{});
    EXPECT_FALSE(verdict.passes()) << at;
    EXPECT_EQ(verdict.worst_row, 128 + static_cast<std::int64_t>(at) / 128);
    EXPECT_EQ(verdict.worst_column, static_cast<std::int64_t>(at) % 128);
  }
}

TEST(Judge, ANanStaysInItsRowAndFillsIt) {
  std::vector<TileValues> tiles = right_tiles(3);
  const std::int64_t row = kTile + 7;
  EXPECT_NE(wrong_nan(tiles, row), "") << "it was swallowed";
  const auto first = static_cast<std::ptrdiff_t>(7 * kTile);
  std::fill_n(tiles[1].actual.begin() + first, kTile, std::nan(""));
  EXPECT_EQ(wrong_nan(tiles, row), "");
  EXPECT_NE(wrong_nan(tiles, row + 1), "");
  EXPECT_NE(wrong_nan(std::span(tiles).first(1), row), "") << "nothing of it was compared";
  std::vector<TileValues> wide = tiles;
  wide[2].actual[5] = std::nan("");
  EXPECT_NE(wrong_nan(wide, row).find("row 256, column 5"), std::string::npos)
      << wrong_nan(wide, row);
  tiles[1].actual[static_cast<std::size_t>(first)] = -1.0;  // one byte's worth of it
  EXPECT_NE(wrong_nan(tiles, row), "");
}

TEST(Judge, InfinityFails) {
  std::vector<TileValues> tiles = right_tiles(2);
  tiles[0].actual[5] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(judge(tiles, Tolerance{}).passes());
}

// One tile of a thousand: lost in the difference over the whole output, so that only the worst
// tile shows it.
TEST(Judge, ZeroedTileFailsByItself) {
  std::vector<TileValues> tiles = right_tiles(1000);
  std::ranges::fill(tiles[500].actual, 0.0);
  const Tolerance loose{.framework_factor = 1e9, .difference = 1e-3, .tile_difference = 1e-3};
  const Verdict verdict = judge(tiles, loose);
  EXPECT_LT(verdict.difference, 1e-3);
  EXPECT_NEAR(verdict.tile_difference, 0.5, 0.05);  // half of what usual tiles, both, would hold
  EXPECT_FALSE(verdict.passes());
}

TEST(Judge, ErrorOverTheFrameworksFails) {
  std::vector<TileValues> tiles = right_tiles(2);
  for (TileValues& one : tiles) {
    for (std::size_t at = 0; at < one.actual.size(); ++at) {
      one.actual[at] = one.expected[at] + 2.5 * (one.framework[at] - one.expected[at]);
    }
  }
  const Verdict verdict = judge(tiles, Tolerance{});
  EXPECT_FALSE(verdict.passes());
  EXPECT_NE(verdict.reason.find("framework"), std::string::npos) << verdict.reason;
}

TEST(Judge, NothingComparedFails) {
  EXPECT_FALSE(judge(std::span<const TileValues>(), Tolerance{}).passes());
}

// A framework that is right by chance, where rounding alone may err by half a unit.
TEST(Judge, RoundingIsNeverAnError) {
  for (const double value : {1.0, 257.0 / 256, -3.7, 0.0001}) {
    TileValues one{.tile = {0, 0, 1, 1},
                   .actual = {rounded(value * (1 + 1e-9))},
                   .expected = {value},
                   .framework = {value},
                   .unit = {unit_in_last_place(DType::kBF16, value)}};
    EXPECT_EQ(judge(std::span(&one, 1), Tolerance{}).reason, "") << value;
    one.actual = {value + 2.5 * one.unit.front()};
    const Tolerance loose{.difference = 1, .tile_difference = 1};
    EXPECT_FALSE(judge(std::span(&one, 1), loose).passes()) << value;
  }
}

// The largest values are few: that the framework rounds them well is chance, and a neighbouring
// number of theirs is no error. The same distance from a small value is one.
TEST(Judge, AUnitInTheLastPlaceIsOfTheValueItself) {
  std::vector<TileValues> tiles = right_tiles(2);
  TileValues& one = tiles[1];
  one.expected[700] = one.framework[700] = 64.0;
  one.unit[700] = unit_in_last_place(DType::kBF16, 64.0);
  one.actual[700] = 64.5;
  EXPECT_EQ(judge(tiles, Tolerance{}).reason, "");
  one.actual[700] = 65.5;
  EXPECT_NE(judge(tiles, Tolerance{}).reason.find("row 133, column 60"), std::string::npos)
      << judge(tiles, Tolerance{}).reason;
  one.actual[700] = 64.0;
  one.actual[701] += 0.5;
  EXPECT_NE(judge(tiles, Tolerance{}).reason.find("row 133, column 61"), std::string::npos)
      << judge(tiles, Tolerance{}).reason;
}

TEST(Judge, UnitsInTheLastPlace) {
  EXPECT_EQ(unit_in_last_place(DType::kBF16, 1.0), 0x1p-7);
  EXPECT_EQ(unit_in_last_place(DType::kBF16, -3.99), 0x1p-6);
  EXPECT_EQ(unit_in_last_place(DType::kF16, 0.0), 0x1p-24);
  EXPECT_EQ(unit_in_last_place(DType::kE4M3, 300.0), 32.0);
  EXPECT_EQ(unit_in_last_place(DType::kE4M3, 1e-9), 0x1p-9);
  EXPECT_EQ(unit_in_last_place(DType::kI8, 100.0), 1.0);
  EXPECT_EQ(unit_in_last_place(DType::kF32, 8.5), 0x1p-20);
}

/// The normalised difference of two rows.
double difference_of(const std::vector<double>& x, const std::vector<double>& y) {
  const auto columns = static_cast<std::int64_t>(x.size());
  const Compared row{.rows = 1, .columns = columns, .actual = x, .expected = y};
  return judge(row, Tolerance{}).difference;
}

TEST(Judge, DifferenceOfEqualsAndOpposites) {
  const std::vector<double> x = {1.0, -2.0, 3.0};
  const std::vector<double> zero(3, 0.0);
  EXPECT_DOUBLE_EQ(difference_of(x, x), 0.0);
  EXPECT_DOUBLE_EQ(difference_of(zero, x), 1.0);
  EXPECT_DOUBLE_EQ(difference_of({-1.0, 2.0, -3.0}, x), 2.0);
  EXPECT_DOUBLE_EQ(difference_of(zero, zero), 0.0);
  EXPECT_TRUE(std::isnan(difference_of({1.0, std::nan(""), 0.0}, x)));
}

// A tile of one value near zero is no measure of its own; wrong by a usual value's size it fails.
TEST(Judge, ATileNearZeroCountsAsTheOthers) {
  std::vector<double> want(17 * 17, 1.0);
  want.back() = 1e-9;
  std::vector<double> got = want;
  got.back() = 1e-5;
  const Tolerance tolerance = tolerance_of(DType::kBF16);
  const Compared matrix{.rows = 17, .columns = 17, .actual = got, .expected = want};
  EXPECT_EQ(judge(matrix, tolerance, 16).reason, "");
  got.back() = 0.01;
  EXPECT_NE(judge(matrix, tolerance, 16).reason.find("tile"), std::string::npos);
}

TEST(Tiles, SmallOutputsAreComparedWhole) {
  std::size_t covered = 0;
  for (const Tile& tile : sample_tiles(300, 200, 48, 1)) {
    covered += tile.count();
  }
  EXPECT_EQ(covered, 300U * 200U);
}

TEST(Tiles, LargeOutputsByCornersAndChance) {
  const std::vector<Tile> tiles = sample_tiles(100'001, 3000, 48, 1);
  EXPECT_EQ(tiles.size(), 48U);
  const auto has = [&](std::int64_t row, std::int64_t column) {
    return std::ranges::any_of(
        tiles, [=](const Tile& tile) { return tile.row == row && tile.column == column; });
  };
  EXPECT_TRUE(has(0, 0));
  EXPECT_TRUE(has(99'968, 2944));  // the ragged end of both
  EXPECT_EQ(tiles.back().rows, 33);
  EXPECT_EQ(tiles.back().columns, 56);
  EXPECT_NE(sample_tiles(100'001, 3000, 48, 2), tiles);
}

}  // namespace
}  // namespace fovea::ops::reference
