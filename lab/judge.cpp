// Error metrics over tiles. Every comparison is written so that NaN fails it.
#include "lab/judge.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/thread_pool.hpp"

namespace fovea::lab {
namespace {

struct Sums {
  double dot = 0.0;
  double actual = 0.0;
  double expected = 0.0;

  void add(double x, double y) {
    dot += x * y;
    actual += x * x;
    expected += y * y;
  }
  [[nodiscard]] double difference() const {
    const double both = actual + expected;
    // Both zero throughout is equality; a NaN is in `both` as well and comes out as NaN.
    return both == 0.0 ? 0.0 : 1.0 - 2.0 * dot / both;
  }
};

/// Largest of the two; NaN when either is.
double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

void for_tiles(std::span<TileValues> tiles, const std::function<void(TileValues&)>& body) {
  ThreadPool pool(available_threads());
  pool.parallel_for(tiles.size(), [&](std::size_t index, int) { body(tiles[index]); });
}

}  // namespace

double normalised_difference(std::span<const double> x, std::span<const double> y) {
  Sums sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sums.add(x[i], y[i]);
  }
  return sums.difference();
}

Verdict judge(std::span<const TileValues> tiles, const Tolerance& tolerance) {
  Verdict verdict;
  Sums all;
  double squared_error = 0.0;
  double squared_framework_error = 0.0;
  double squared_expected = 0.0;
  for (const TileValues& values : tiles) {
    Sums one;
    for (std::size_t i = 0; i < values.expected.size(); ++i) {
      const double error = std::abs(values.actual[i] - values.expected[i]);
      const double framework_error = std::abs(values.framework[i] - values.expected[i]);
      if (!(error <= verdict.worst) && !std::isnan(verdict.worst)) {
        verdict.worst_row = values.tile.row + static_cast<std::int64_t>(i) / values.tile.columns;
        verdict.worst_column =
            values.tile.column + static_cast<std::int64_t>(i) % values.tile.columns;
      }
      verdict.worst = larger(verdict.worst, error);
      verdict.framework_worst = larger(verdict.framework_worst, framework_error);
      squared_error += error * error;
      squared_framework_error += framework_error * framework_error;
      squared_expected += values.expected[i] * values.expected[i];
      one.add(values.actual[i], values.expected[i]);
      all.add(values.actual[i], values.expected[i]);
    }
    verdict.tile_difference = larger(verdict.tile_difference, one.difference());
  }
  verdict.error = std::sqrt(squared_error / squared_expected);
  verdict.framework_error = std::sqrt(squared_framework_error / squared_expected);
  verdict.difference = all.difference();

  const double factor = tolerance.framework_factor;
  const std::string where =
      fmt::format("worst at row {}, column {}", verdict.worst_row, verdict.worst_column);
  if (tiles.empty()) {
    verdict.reason = "nothing was compared";
  } else if (!(verdict.error <= factor * verdict.framework_error)) {
    verdict.reason = fmt::format("error {:.3g} is over {:g} x the framework's {:.3g}; {}",
                                 verdict.error, factor, verdict.framework_error, where);
  } else if (!(verdict.worst <= factor * verdict.framework_worst)) {
    verdict.reason = fmt::format("largest error {:.3g} is over {:g} x the framework's {:.3g}; {}",
                                 verdict.worst, factor, verdict.framework_worst, where);
  } else if (!(verdict.difference <= tolerance.difference)) {
    verdict.reason = fmt::format("difference {:.3g} is over {:.3g}; {}", verdict.difference,
                                 tolerance.difference, where);
  } else if (!(verdict.tile_difference <= tolerance.tile_difference)) {
    verdict.reason = fmt::format("difference of the worst tile {:.3g} is over {:.3g}; {}",
                                 verdict.tile_difference, tolerance.tile_difference, where);
  }
  return verdict;
}

std::string wrong_nan(std::span<const TileValues> tiles, std::int64_t row) {
  bool seen = false;
  for (const TileValues& values : tiles) {
    for (std::size_t i = 0; i < values.actual.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t here = values.tile.row + at / values.tile.columns;
      if (std::isnan(values.actual[i]) != (here == row)) {
        return fmt::format("row {}, column {} is {}, and the NaN was put into row {}", here,
                           values.tile.column + at % values.tile.columns, values.actual[i], row);
      }
      seen = seen || here == row;
    }
  }
  return seen ? "" : fmt::format("no tile holds row {}, which the NaN was put into", row);
}

std::vector<TileValues> expectations(const Workload& workload, std::span<const Tile> tiles) {
  std::vector<TileValues> values(tiles.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    values[i].tile = tiles[i];
  }
  for_tiles(values, [&](TileValues& one) {
    one.expected.resize(one.tile.count());
    one.framework.resize(one.tile.count());
    one.actual.assign(one.tile.count(), std::nan(""));
    workload.reference(one.tile, one.expected);
    workload.framework(one.tile, one.framework);
  });
  return values;
}

void fill_emulated(const Workload& workload, std::span<TileValues> tiles) {
  for_tiles(tiles, [&](TileValues& one) { workload.framework(one.tile, one.actual); });
}

}  // namespace fovea::lab
