// The gate: what it lets pass and what it must not.
#include "lab/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>

#include <gtest/gtest.h>

namespace fovea::lab {
namespace {

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
      one.framework.push_back(double{rounded(DType::kBF16, one.expected.back())});
      one.actual.push_back(one.framework.back());
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
  EXPECT_NEAR(verdict.tile_difference, 1.0, 1e-12);
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
  EXPECT_FALSE(judge({}, Tolerance{}).passes());
}

TEST(Judge, DifferenceOfEqualsAndOpposites) {
  const std::vector<double> x = {1.0, -2.0, 3.0};
  const std::vector<double> zero(3, 0.0);
  const std::vector<double> opposite = {-1.0, 2.0, -3.0};
  EXPECT_DOUBLE_EQ(normalised_difference(x, x), 0.0);
  EXPECT_DOUBLE_EQ(normalised_difference(zero, x), 1.0);
  EXPECT_DOUBLE_EQ(normalised_difference(opposite, x), 2.0);
  EXPECT_DOUBLE_EQ(normalised_difference(zero, zero), 0.0);
  const std::vector<double> damaged = {1.0, std::nan(""), 0.0};
  EXPECT_TRUE(std::isnan(normalised_difference(damaged, x)));
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
}  // namespace fovea::lab
