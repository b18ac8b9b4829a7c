// How a batch is cut over threads: images side by side, or one image by several threads.
#pragma once

#include <cstdint>

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

/// How the threads of a team share a matrix product: blocks of rows x blocks of columns.
struct Grid {
  std::int64_t row_block = 1;
  std::int64_t column_block = 1;
};

/// Blocks of [rows, columns] for `team` threads; columns are cut at multiples of 64 only, where
/// packed weights can be cut.
[[nodiscard]] Grid plan_grid(std::int64_t rows, std::int64_t columns, int team);

}  // namespace fovea::cpu
