// The cost models for splitting batches and matrix products over threads.
#include "cpu/schedule.hpp"

#include <algorithm>

#include "core/divide_up.hpp"

namespace fovea::cpu {
namespace {

// A slice of about this many rows keeps the matrix units busy, while a core's share of the
// last-level cache still holds most of its activations.
constexpr std::int64_t kMaxRows = 400;
constexpr std::int64_t kEnoughRows = 384;

// Fraction of its time that each additional thread of a team spends waiting for the others.
constexpr double kTeamOverhead = 0.03;

}  // namespace

Schedule plan_schedule(std::int64_t images, std::int64_t tokens, int threads) {
  Schedule best;
  double best_time = 0;
  for (int team = 1; team <= threads; ++team) {
    if (threads % team != 0) {
      continue;
    }
    const int teams = threads / team;
    const double speed = team / (1.0 + kTeamOverhead * (team - 1));
    const double time = static_cast<double>(divide_up(images, teams)) / speed;
    if (team == 1 || time < best_time) {
      best_time = time;
      best.teams = teams;
      best.team = team;
    }
  }
  best.max_images = std::max<std::int64_t>(1, kMaxRows / tokens);
  best.enough_images = std::min(best.max_images, divide_up(kEnoughRows, tokens));
  return best;
}

std::int64_t next_slice(const Schedule& schedule, std::int64_t remaining) {
  const std::int64_t fair = divide_up(remaining, schedule.teams);
  const std::int64_t tapered = divide_up(remaining, 2 * std::int64_t{schedule.teams});
  return std::min(fair, std::clamp(tapered, schedule.enough_images, schedule.max_images));
}

Grid plan_grid(std::int64_t row_tiles, std::int64_t panels, int team) {
  // Overhead of a block, as a number of tiles.
  constexpr std::int64_t kBlockCost = 1;
  Grid best(row_tiles, panels, row_tiles, panels);
  std::int64_t best_time = row_tiles * panels + kBlockCost;
  for (std::int64_t row_parts = 1; row_parts <= row_tiles; ++row_parts) {
    const std::int64_t tiles = divide_up(row_tiles, row_parts);
    for (std::int64_t column_parts = 1; column_parts <= panels; ++column_parts) {
      const std::int64_t columns = divide_up(panels, column_parts);
      const Grid grid(row_tiles, panels, tiles, columns);
      const std::int64_t time = divide_up(grid.blocks(), team) * (tiles * columns + kBlockCost);
      if (time < best_time) {
        best_time = time;
        best = grid;
      }
    }
  }
  return best;
}

}  // namespace fovea::cpu
