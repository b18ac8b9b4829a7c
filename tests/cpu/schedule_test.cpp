// Cutting batches over threads: everything is covered once, and nobody idles who could work.
#include "cpu/schedule.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace fovea::cpu {
namespace {

TEST(ScheduleTest, SlicesCoverEveryBatch) {
  for (const int threads : {1, 2, 3, 16}) {
    for (std::int64_t images = 1; images < 70; ++images) {
      const Schedule schedule = plan_schedule(images, 196, threads);
      EXPECT_EQ(schedule.teams * schedule.team, threads);
      std::int64_t remaining = images;
      while (remaining > 0) {
        const std::int64_t slice = next_slice(schedule, remaining);
        ASSERT_GT(slice, 0);
        ASSERT_LE(slice, std::min(remaining, schedule.max_images));
        remaining -= slice;
      }
    }
  }
}

TEST(ScheduleTest, OneImageTakesAllThreads) {
  EXPECT_EQ(plan_schedule(1, 196, 16).team, 16);
  EXPECT_EQ(plan_schedule(2, 196, 16).team, 8);
}

TEST(ScheduleTest, FullBatchesRunSideBySide) {
  const Schedule schedule = plan_schedule(32, 196, 16);
  EXPECT_EQ(schedule.team, 1);
  EXPECT_EQ(next_slice(schedule, 32), 2);  // two each, all at once
  EXPECT_EQ(next_slice(plan_schedule(16, 196, 16), 16), 1);
}

TEST(ScheduleTest, AnAwkwardNumberOfImagesLeavesNobodyIdle) {
  // 24 images by 16 threads: teams of two take three each, where single threads would take two
  // rounds, the second with half of them idle.
  EXPECT_EQ(plan_schedule(24, 196, 16).team, 2);
}

TEST(ScheduleTest, LargeImagesGoOneByOne) {
  EXPECT_EQ(plan_schedule(32, 729, 2).max_images, 1);
  EXPECT_EQ(plan_schedule(32, 5000, 2).max_images, 1);
}

TEST(GridTest, BlocksCoverTheProductOnce) {
  for (const std::int64_t row_tiles : {1, 3, 14, 53}) {
    for (const std::int64_t panels : {1, 2, 24, 135}) {
      for (const int team : {1, 2, 7, 16}) {
        const Grid grid = plan_grid(row_tiles, panels, team);
        std::set<std::pair<std::int64_t, std::int64_t>> seen;
        for (std::int64_t block = 0; block < grid.blocks(); ++block) {
          for (std::int64_t tile = 0; tile < grid.tiles(block); ++tile) {
            for (std::int64_t panel = 0; panel < grid.panels(block); ++panel) {
              const bool added =
                  seen.emplace(grid.first_tile(block) + tile, grid.first_panel(block) + panel)
                      .second;
              EXPECT_TRUE(added);
            }
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(seen.size()), row_tiles * panels);
        EXPECT_EQ(std::prev(seen.end())->first, row_tiles - 1);
      }
    }
  }
}

TEST(GridTest, SharesOneImageAmongManyThreads) {
  const Grid grid = plan_grid(14, 96, 16);
  EXPECT_GE(grid.blocks(), 16);
  EXPECT_EQ(grid.blocks() % 16, 0);
}

}  // namespace
}  // namespace fovea::cpu
