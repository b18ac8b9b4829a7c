// Computes the expected values of many tiles in parallel: exact values, and those of a framework.
#include "lab/check/judge.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/thread_pool.hpp"
#include "ops/block_scales.hpp"

namespace fovea::lab {
namespace {

constexpr double kLargestI8 = 127.0;

void for_tiles(std::span<TileValues> tiles, const std::function<void(TileValues&)>& body) {
  const auto threads = std::min(tiles.size(), static_cast<std::size_t>(available_threads()));
  ThreadPool pool(std::max(1, static_cast<int>(threads)));
  pool.parallel_for(tiles.size(), [&](std::size_t index, int) { body(tiles[index]); });
}

/// Returns the scale of each row in a tile, computed from the row's largest element.
std::vector<double> row_scales(const Workload& workload, const Tile& tile) {
  const Tile band{tile.row, 0, tile.rows, workload.output().columns};
  std::vector<double> values(band.count());
  workload.reference(band, values);
  std::vector<double> scales;
  for (auto row = values.begin(); row != values.end(); row += band.columns) {
    const auto [least, largest] = std::minmax_element(row, row + band.columns);
    scales.push_back(std::max(-*least, *largest) / kLargestI8);
  }
  return scales;
}

/// Returns the block scale of each element in a tile. No block spans two tiles.
std::vector<double> block_scales(const Workload& workload, const Tile& tile) {
  std::vector<double> values(tile.count());
  workload.reference(tile, values);
  const auto columns = static_cast<std::size_t>(tile.columns);
  for (auto row = values.begin(); row != values.end(); row += tile.columns) {
    const std::span<double> all(row, columns);
    for (std::size_t first = 0; first < columns; first += ops::kScaleBlock) {
      const std::span<double> block =
          all.subspan(first, std::min<std::size_t>(ops::kScaleBlock, columns - first));
      const auto [least, highest] = std::minmax_element(block.begin(), block.end());
      const double largest = std::max(-*least, *highest);
      std::ranges::fill(block, double{to_float(ops::block_scale(static_cast<float>(largest)))});
    }
  }
  return values;
}

/// Returns the total scale of each element in the tile: the value of a stored 1.
std::vector<double> total_scales(const Workload& workload, const Tile& tile) {
  const OutputSpec spec = workload.output();
  if (spec.block_scales) {
    return block_scales(workload, tile);
  }
  std::vector<double> scales(tile.count(), spec.scale);
  if (spec.row_scale) {
    const std::vector<double> rows = row_scales(workload, tile);
    for (std::size_t i = 0; i < scales.size(); ++i) {
      scales[i] *= rows[i / static_cast<std::size_t>(tile.columns)];
    }
  }
  return scales;
}

}  // namespace

std::vector<TileValues> expectations(const Workload& workload, std::span<const Tile> tiles) {
  std::vector<TileValues> values(tiles.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    values[i].tile = tiles[i];
  }
  const OutputSpec spec = workload.output();
  for_tiles(values, [&](TileValues& values_of_tile) {
    values_of_tile.expected.resize(values_of_tile.tile.count());
    values_of_tile.framework.resize(values_of_tile.tile.count());
    values_of_tile.actual.assign(values_of_tile.tile.count(),
                                 std::numeric_limits<double>::quiet_NaN());
    workload.reference(values_of_tile.tile, values_of_tile.expected);
    workload.framework(values_of_tile.tile, values_of_tile.framework);
    values_of_tile.unit = total_scales(workload, values_of_tile.tile);
    for (std::size_t i = 0; i < values_of_tile.unit.size(); ++i) {
      const double stored = values_of_tile.expected[i] / values_of_tile.unit[i] - spec.offset;
      values_of_tile.unit[i] *= unit_in_last_place(spec.precision(), stored);
    }
  });
  return values;
}

std::vector<TileValues> expectations(const Workload& workload, std::size_t max_tiles,
                                     std::uint64_t seed) {
  const OutputSpec output = workload.output();
  return expectations(workload, sample_tiles(output.rows, output.columns, max_tiles, seed));
}

void fill_emulated(const Workload& workload, std::span<TileValues> tiles) {
  for_tiles(tiles, [&](TileValues& tile) { workload.framework(tile.tile, tile.actual); });
}

void fill_rounded(const Workload& workload, std::span<TileValues> tiles) {
  const OutputSpec spec = workload.output();
  for_tiles(tiles, [&](TileValues& tile) {
    const std::vector<double> scales = total_scales(workload, tile.tile);
    for (std::size_t i = 0; i < tile.actual.size(); ++i) {
      const double stored = tile.expected[i] / scales[i] - spec.offset;
      tile.actual[i] = (double{rounded(spec.precision(), stored)} + spec.offset) * scales[i];
    }
  });
}

std::vector<std::pair<std::string, std::vector<TileValues>>> spoiled_outputs(
    std::span<const TileValues> correct_values) {
  std::vector<std::pair<std::string, std::vector<TileValues>>> all;
  for (const auto& [name, value] :
       {std::pair{"zeroed tile", 0.0},
        std::pair{"unwritten tile", std::numeric_limits<double>::quiet_NaN()}}) {
    std::vector<TileValues> values(correct_values.begin(), correct_values.end());
    std::ranges::fill(values[values.size() / 2].actual, value);
    all.emplace_back(name, std::move(values));
  }
  return all;
}

}  // namespace fovea::lab
