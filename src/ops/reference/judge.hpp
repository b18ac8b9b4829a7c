// The numerics contract: whether what an operator wrote is right, and by how much.
//
// python/fovea/lab/_numerics.py states the same contract; tests/ops/contract.json holds both to the
// same figures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::ops::reference {

/// A part of the output, compared as one: errors that stay in one place must not drown in the rest.
struct Tile {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows * columns); }
  /// Where value `index` of the tile lies in the output.
  [[nodiscard]] std::int64_t row_of(std::size_t index) const {
    return row + static_cast<std::int64_t>(index) / columns;
  }
  [[nodiscard]] std::int64_t column_of(std::size_t index) const {
    return column + static_cast<std::int64_t>(index) % columns;
  }
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// Rows and columns of a tile; one that is zero or unwritten must be noticed.
inline constexpr std::int64_t kTile = 128;

/// The tiles that are compared: all of a small output; else the corners, the ragged ends and some
/// at random. `limit` is how many at the most.
[[nodiscard]] std::vector<Tile> sample_tiles(std::int64_t rows, std::int64_t columns,
                                             std::size_t limit, std::uint64_t seed);

/// One tile: what came out, what should, and what a framework of the same precision gives.
struct TileValues {
  Tile tile;
  std::vector<double> actual;
  std::vector<double> expected;
  std::vector<double> framework;
  /// One unit in the last place of the output's type at each expected value; empty: none counts.
  std::vector<double> unit;
};

/// All must hold; NaN anywhere fails.
struct Tolerance {
  /// The error against float64 over that of a framework of the same precision.
  double framework_factor = 2.0;
  /// 1 - 2<x,y> / (|x|^2 + |y|^2) over all of what is compared, and over the worst tile.
  double difference = 1e-5;
  double tile_difference = 1e-5;
  /// Products added up in f32 for each value: that their order differs is nobody's error.
  std::int64_t terms = 1;
};

/// What rounding operands, intermediate results and the result to this type may cost.
[[nodiscard]] Tolerance tolerance_of(DType type);

struct Verdict {
  double error = 0.0;            // |actual - expected| / |expected|, all tiles together
  double framework_error = 0.0;  // the same of the framework's values
  double worst = 0.0;            // the largest |actual - expected|
  /// The largest |actual - expected| / |expected|, where values below their tile's root mean square
  /// count as if they were as large.
  double worst_relative = 0.0;
  double framework_worst = 0.0;
  double difference = 0.0;       // 1 - 2<x,y> / (|x|^2 + |y|^2), all tiles together
  double tile_difference = 0.0;  // the same of the worst tile
  std::int64_t worst_row = 0;    // where the largest |actual - expected| is
  std::int64_t worst_column = 0;
  std::string reason;  // why it does not pass; empty when it does

  [[nodiscard]] bool passes() const { return reason.empty(); }
};

/// The distance from a number of this type, as large as `value`, to the next one; of kMXFP8 both
/// are divided by the scale of the number's block.
[[nodiscard]] double unit_in_last_place(DType type, double value);

/// Passes when all of these hold:
/// - the error is at most twice (`framework_factor`) the framework's, where a framework whose error
///   is by chance below that of rounding the result to its type counts as one that rounds;
/// - no value is farther from the exact one than twice the framework's farthest, or than two units
///   in its last place when these are more;
/// - the normalised difference over everything, and over each tile, is below its limit. A tile
///   whose values are near zero counts as if they were as large as the others.
/// An exact result that is rounded once passes whatever the inputs are.
[[nodiscard]] Verdict judge(std::span<const TileValues> tiles, const Tolerance& tolerance);

/// Why these are not the tiles of an output of which `row`, and no other, is NaN; empty when they
/// are.
[[nodiscard]] std::string wrong_nan(std::span<const TileValues> tiles, std::int64_t row);

}  // namespace fovea::ops::reference
