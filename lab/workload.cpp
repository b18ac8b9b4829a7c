// Which parts of an output are compared, and what workloads without levels say of them.
#include "lab/workload.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "core/error.hpp"

namespace fovea::lab {

std::string Workload::plan_of_level(const gpu::DeviceInfo& /*device*/,
                                    std::string_view level) const {
  fail("{} has no levels to take '{}' from", describe(), level);
}

std::vector<Tile> sample_tiles(std::int64_t rows, std::int64_t columns, std::size_t most,
                               std::uint64_t seed) {
  const std::int64_t down = (rows + kTile - 1) / kTile;
  const std::int64_t across = (columns + kTile - 1) / kTile;
  std::set<std::pair<std::int64_t, std::int64_t>> chosen;
  if (down * across <= static_cast<std::int64_t>(most)) {
    for (std::int64_t index = 0; index < down * across; ++index) {
      chosen.emplace(index / across, index % across);
    }
  } else {
    // The corners are where tails and the first and last block of a grid are.
    chosen = {{0, 0}, {0, across - 1}, {down - 1, 0}, {down - 1, across - 1}};
    std::mt19937_64 engine(seed);
    std::uniform_int_distribution<std::int64_t> row(0, down - 1);
    std::uniform_int_distribution<std::int64_t> column(0, across - 1);
    while (chosen.size() < most) {
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

}  // namespace fovea::lab
