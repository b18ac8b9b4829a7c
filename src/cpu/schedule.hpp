// How a batch is divided among threads: one image per thread, or several threads per image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/divide_up.hpp"

namespace fovea::cpu {

/// `teams` teams of `team` threads each work in parallel, each on one slice of images at a time.
struct Schedule {
  int teams = 1;
  int team = 1;
  std::int64_t max_images = 1;     // maximum of a slice
  std::int64_t enough_images = 1;  // larger slices are not faster
};

/// Picks the team size with which a batch ends first: single threads need not wait for each other;
/// larger teams leave no thread idle when there are fewer images than threads.
[[nodiscard]] Schedule plan_schedule(std::int64_t images, std::int64_t tokens, int threads);

/// Number of images in the next slice when `remaining` are left. Slices become smaller towards the
/// end, so that the teams finish together.
[[nodiscard]] std::int64_t next_slice(const Schedule& schedule, std::int64_t remaining);

/// Divides a matrix product of `row_tiles` x `panels` tiles into blocks for the threads of a team.
class Grid {
 public:
  Grid(std::int64_t row_tiles, std::int64_t panels, std::int64_t block_tiles,
       std::int64_t block_panels)
      : row_tiles_(row_tiles),
        panels_(panels),
        block_tiles_(block_tiles),
        block_panels_(block_panels) {}

  [[nodiscard]] std::int64_t blocks() const {
    return divide_up(row_tiles_, block_tiles_) * side_by_side();
  }
  [[nodiscard]] std::int64_t first_tile(std::int64_t block) const {
    return block / side_by_side() * block_tiles_;
  }
  [[nodiscard]] std::int64_t tiles(std::int64_t block) const {
    return std::min(block_tiles_, row_tiles_ - first_tile(block));
  }
  [[nodiscard]] std::int64_t first_panel(std::int64_t block) const {
    return block % side_by_side() * block_panels_;
  }
  [[nodiscard]] std::int64_t panels(std::int64_t block) const {
    return std::min(block_panels_, panels_ - first_panel(block));
  }

 private:
  [[nodiscard]] std::int64_t side_by_side() const { return divide_up(panels_, block_panels_); }

  std::int64_t row_tiles_;
  std::int64_t panels_;
  std::int64_t block_tiles_;
  std::int64_t block_panels_;
};

/// Returns the grid with which `team` threads finish first.
[[nodiscard]] Grid plan_grid(std::int64_t row_tiles, std::int64_t panels, int team);

}  // namespace fovea::cpu
