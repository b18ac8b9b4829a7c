// Error metrics over tiles. Every comparison is written so that NaN fails it.
#include "ops/reference/judge.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace fovea::ops::reference {
namespace {

struct NumberFormat {
  int fraction;       // bits of the mantissa; 0 for integers
  int min_exponent;   // minimum exponent of a normal number
  double difference;  // tolerance for rounding to this type: see Tolerance::difference
};
/// Formats in the order of DType. The tolerance of one-byte types is the square of half a unit with
/// three mantissa bits.
constexpr NumberFormat kFormats[] = {{0, 0, 1e-3},      {0, 0, 1e-3},      {3, -6, 1e-3},
                                     {3, -6, 1e-3},     {10, -14, 5e-7},   {7, -126, 1e-5},
                                     {23, -126, 2e-12}, {52, -1022, 1e-24}};
static_assert(std::size(kFormats) == std::size(kDTypes));

/// Sums of squares over one tile or all tiles.
struct Sums {
  double error = 0.0;  // sum of (actual - expected)^2
  double framework_error = 0.0;
  double actual = 0.0;
  double expected = 0.0;
  double unit = 0.0;
  double count = 0.0;

  void add(const Sums& other) {
    error += other.error;
    framework_error += other.framework_error;
    actual += other.actual;
    expected += other.expected;
    unit += other.unit;
    count += other.count;
  }
  [[nodiscard]] double size() const { return actual + expected; }
};

double square(double value) {
  return value * value;
}

/// Returns the larger number; NaN if either is NaN.
double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

/// Returns error / size, or 0 if there is no error.
double ratio(double error, double size) {
  return error == 0.0 ? 0.0 : error / size;
}

/// Returns the sums of a tile and updates the largest errors in the verdict.
Sums measure(const TileValues& values, Verdict& verdict) {
  Sums sums;
  for (std::size_t i = 0; i < values.expected.size(); ++i) {
    const double error = std::abs(values.actual[i] - values.expected[i]);
    if (!(error <= verdict.worst) && !std::isnan(verdict.worst)) {
      verdict.worst_row = values.tile.output_row(i);
      verdict.worst_column = values.tile.output_column(i);
    }
    verdict.worst = larger(verdict.worst, error);
    sums.error += square(error);
    sums.actual += square(values.actual[i]);
    sums.expected += square(values.expected[i]);
    sums.unit += values.unit.empty() ? 0.0 : square(values.unit[i]);
    if (!values.framework.empty()) {
      const double framework_error = std::abs(values.framework[i] - values.expected[i]);
      verdict.framework_worst = larger(verdict.framework_worst, framework_error);
      sums.framework_error += square(framework_error);
    }
  }
  sums.count = static_cast<double>(values.expected.size());
  const double mean = std::sqrt(sums.expected / std::max(sums.count, 1.0));
  for (std::size_t i = 0; i < values.expected.size(); ++i) {
    const double error = std::abs(values.actual[i] - values.expected[i]);
    verdict.worst_relative =
        larger(verdict.worst_relative, ratio(error, larger(std::abs(values.expected[i]), mean)));
  }
  return sums;
}

/// Returns a message about the first value that is too far from the exact value; "" if there is
/// none.
std::string far_value(std::span<const TileValues> tiles, double factor, double framework_worst) {
  for (const TileValues& values : tiles) {
    for (std::size_t i = 0; i < values.expected.size(); ++i) {
      const double error = std::abs(values.actual[i] - values.expected[i]);
      const double unit = values.unit.empty() ? 0.0 : values.unit[i];
      if (!(error <= factor * larger(framework_worst, unit))) {
        return fmt::format(
            "error {:.3g} at row {}, column {} exceeds {:g} x the framework's largest, {:.3g}, and "
            "{:g} x the unit in the last place, {:.3g}",
            error, values.tile.output_row(i), values.tile.output_column(i), factor, framework_worst,
            factor, unit);
      }
    }
  }
  return {};
}

}  // namespace

std::vector<Tile> sample_tiles(std::int64_t rows, std::int64_t columns, std::size_t limit,
                               std::uint64_t seed) {
  const std::int64_t down = (rows + kTile - 1) / kTile;
  const std::int64_t across = (columns + kTile - 1) / kTile;
  std::set<std::pair<std::int64_t, std::int64_t>> chosen;
  if (down * across <= static_cast<std::int64_t>(limit)) {
    for (std::int64_t index = 0; index < down * across; ++index) {
      chosen.emplace(index / across, index % across);
    }
  } else {
    // Corner tiles include the partial tiles at the ends, and the first and last block of a grid.
    chosen = {{0, 0}, {0, across - 1}, {down - 1, 0}, {down - 1, across - 1}};
    std::mt19937_64 engine(seed);
    std::uniform_int_distribution<std::int64_t> row(0, down - 1);
    std::uniform_int_distribution<std::int64_t> column(0, across - 1);
    while (chosen.size() < limit) {
      chosen.emplace(row(engine), column(engine));
    }
  }
  std::vector<Tile> tiles;
  tiles.reserve(chosen.size());
  for (const auto& [row, column] : chosen) {
    tiles.push_back({row * kTile, column * kTile, std::min(kTile, rows - row * kTile),
                     std::min(kTile, columns - column * kTile)});
  }
  return tiles;
}

double unit_in_last_place(DType type, double value) {
  const NumberFormat& format = kFormats[static_cast<std::size_t>(type)];
  if (format.fraction == 0) {
    return 1.0;
  }
  const int exponent = value == 0.0 ? format.min_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, format.min_exponent) - format.fraction);
}

Tolerance tolerance_of(DType type) {
  const double difference = kFormats[static_cast<std::size_t>(type)].difference;
  return {.difference = difference, .tile_difference = difference};
}

Verdict judge(std::span<const TileValues> tiles, const Tolerance& tolerance) {
  Verdict verdict;
  Sums all;
  std::vector<Sums> each;
  bool framework = !tiles.empty();
  for (const TileValues& values : tiles) {
    each.push_back(measure(values, verdict));
    all.add(each.back());
    framework = framework && !values.framework.empty();
  }
  for (const Sums& tile : each) {
    const double expected_size = all.size() * tile.count / all.count;
    verdict.tile_difference =
        larger(verdict.tile_difference, ratio(tile.error, larger(tile.size(), expected_size)));
  }
  verdict.difference = ratio(all.error, all.size());
  verdict.error = std::sqrt(ratio(all.error, all.expected));
  verdict.framework_error = std::sqrt(ratio(all.framework_error, all.expected));

  const double factor = tolerance.framework_factor;
  const double reordered = std::ldexp(std::sqrt(static_cast<double>(tolerance.terms)), -24);
  // The mean square of a rounding error is unit^2 / 12.
  const double rounding = std::sqrt(ratio(all.unit / 12.0, all.expected));
  const double allowed = factor * larger(larger(verdict.framework_error, rounding), reordered);
  const double allowed_worst =
      larger(verdict.framework_worst, reordered * std::sqrt(all.expected / all.count));
  const std::string where =
      fmt::format("worst at row {}, column {}", verdict.worst_row, verdict.worst_column);
  if (all.count == 0.0) {
    verdict.reason = "nothing was compared";
  } else if (framework && !(verdict.error <= allowed)) {
    verdict.reason =
        fmt::format("error {:.3g} exceeds {:.3g}, {:g} x the framework's {:.3g} or a rounding; {}",
                    verdict.error, allowed, factor, verdict.framework_error, where);
  } else if (!(verdict.difference <= tolerance.difference)) {
    verdict.reason = fmt::format("difference {:.3g} exceeds {:.3g}; {}", verdict.difference,
                                 tolerance.difference, where);
  } else if (!(verdict.tile_difference <= tolerance.tile_difference)) {
    verdict.reason = fmt::format("difference of the worst tile {:.3g} exceeds {:.3g}; {}",
                                 verdict.tile_difference, tolerance.tile_difference, where);
  } else if (framework) {
    verdict.reason = far_value(tiles, factor, allowed_worst);
  }
  return verdict;
}

std::string wrong_nan(std::span<const TileValues> tiles, std::int64_t row) {
  bool seen = false;
  for (const TileValues& values : tiles) {
    for (std::size_t i = 0; i < values.actual.size(); ++i) {
      const std::int64_t here = values.tile.output_row(i);
      if (std::isnan(values.actual[i]) != (here == row)) {
        return fmt::format("row {}, column {} is {}, but only row {} must be NaN", here,
                           values.tile.output_column(i), values.actual[i], row);
      }
      seen = seen || here == row;
    }
  }
  return seen ? "" : fmt::format("no tile contains row {}, which must be NaN", row);
}

}  // namespace fovea::ops::reference
