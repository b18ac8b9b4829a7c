// How a batch is cut over threads: images side by side, or one image by several threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/divide_up.hpp"

namespace fovea::cpu {

/// `teams` teams of `team` threads each work side by side, each on a slice of images at a time.
struct Schedule {
  int teams = 1;
  int team = 1;
  std::int64_t max_images = 1;     // of a slice
  std::int64_t enough_images = 1;  // a slice need not be larger to run well
};

/// Picks the team size that ends a batch first: teams of one never wait for each other, larger
/// ones leave nobody idle when there are fewer images than threads.
[[nodiscard]] Schedule plan_schedule(std::int64_t images, std::int64_t tokens, int threads);

/// Images of the next slice when `remaining` are left: large at first, smaller at the end, so that
/// the teams finish together.
[[nodiscard]] std::int64_t next_slice(const Schedule& schedule, std::int64_t remaining);

/// How the threads of a team share a matrix product of `row_tiles` x `panels` tiles: in blocks.
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

/// The blocks with which `team` threads are done first.
[[nodiscard]] Grid plan_grid(std::int64_t row_tiles, std::int64_t panels, int team);

}  // namespace fovea::cpu
