// The numerics contract: decides whether an operator's output is accurate enough.
//
// python/fovea/lab/_numerics.py implements the same contract; tests/ops/contract.json checks that
// both give the same results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::ops::reference {

/// A part of the output that is judged separately, so that a local error is not lost in the
/// average.
struct Tile {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(rows * columns); }
  /// Position in the output of value `index` of the tile.
  [[nodiscard]] std::int64_t output_row(std::size_t index) const {
    return row + static_cast<std::int64_t>(index) / columns;
  }
  [[nodiscard]] std::int64_t output_column(std::size_t index) const {
    return column + static_cast<std::int64_t>(index) % columns;
  }
  friend bool operator==(const Tile&, const Tile&) = default;
};

/// The maximum number of rows and of columns in a tile: small enough to detect one unwritten tile.
inline constexpr std::int64_t kTile = 128;

/// Chooses at most `limit` tiles to compare: all tiles of a small output; otherwise the corners,
/// which include the partial tiles at the ends, and random tiles.
[[nodiscard]] std::vector<Tile> sample_tiles(std::int64_t rows, std::int64_t columns,
                                             std::size_t limit, std::uint64_t seed);

/// The values of one tile: actual, expected, and those of a framework with the same precision.
struct TileValues {
  Tile tile;
  std::vector<double> actual;
  std::vector<double> expected;
  std::vector<double> framework;
  /// One unit in the last place of the output's type at each expected value; if empty, rounding to
  /// the output's type gets no allowance.
  std::vector<double> unit;
};

/// Limits that must all hold; NaN anywhere fails.
struct Tolerance {
  /// Maximum ratio of the error to that of a framework with the same precision, both against
  /// float64.
  double framework_factor = 2.0;
  /// Maximum of 1 - 2<x,y> / (|x|^2 + |y|^2) over all compared values, and over the worst tile.
  double difference = 1e-5;
  double tile_difference = 1e-5;
  /// Number of products summed in f32 for each value, which determines the allowance for rounding
  /// errors that depend on their order.
  std::int64_t terms = 1;
};

/// Returns the tolerance when operands, intermediate results and the result are rounded to this
/// type.
[[nodiscard]] Tolerance tolerance_of(DType type);

struct Verdict {
  double error = 0.0;            // |actual - expected| / |expected|, all tiles together
  double framework_error = 0.0;  // the same for the framework's values
  double worst = 0.0;            // the largest |actual - expected|
  /// The largest |actual - expected| / |expected|, where |expected| is replaced by the root mean
  /// square of the tile if that is larger.
  double worst_relative = 0.0;
  double framework_worst = 0.0;
  double difference = 0.0;       // 1 - 2<x,y> / (|x|^2 + |y|^2), all tiles together
  double tile_difference = 0.0;  // the same for the worst tile
  std::int64_t worst_row = 0;    // position of the largest |actual - expected|
  std::int64_t worst_column = 0;
  std::string reason;  // reason of the failure; empty when it passes

  [[nodiscard]] bool passes() const { return reason.empty(); }
};

/// Returns the distance between adjacent numbers of this type at the magnitude of `value`; for
/// kMXFP8, both are relative to the scale of the block.
[[nodiscard]] double unit_in_last_place(DType type, double value);

/// Passes when all of these hold:
/// - the error is at most `framework_factor` times the framework's error, or times the error of
///   rounding the result to its type, whichever is larger;
/// - the error of each value is at most `framework_factor` times the framework's largest error, or
///   times the unit in the value's last place, whichever is larger;
/// - the normalised difference over all values, and over each tile, is within its limit. A tile
/// whose
///   values are near zero counts as if they were as large as the others.
/// A correctly rounded result passes for all inputs.
[[nodiscard]] Verdict judge(std::span<const TileValues> tiles, const Tolerance& tolerance);

/// Checks that exactly the values of `row` are NaN in these tiles. Returns the reason of a failure,
/// or "".
[[nodiscard]] std::string wrong_nan(std::span<const TileValues> tiles, std::int64_t row);

}  // namespace fovea::ops::reference
