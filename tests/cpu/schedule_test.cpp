// Cutting batches over threads: everything is covered once, and nobody idles who could work.
#include "cpu/schedule.hpp"

#include <algorithm>
#include <set>

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

TEST(GridTest, BlocksAreCutWherePackedWeightsCanBe) {
  for (const std::int64_t rows : {1, 3, 196, 729}) {
    for (const std::int64_t columns : {1, 64, 72, 129, 768, 4304}) {
      for (const int team : {1, 2, 7, 16}) {
        const Grid grid = plan_grid(rows, columns, team);
        EXPECT_LE(grid.row_block, rows);
        EXPECT_TRUE(grid.column_block == columns || grid.column_block % 64 == 0);
      }
    }
  }
}

TEST(GridTest, SharesOneImageAmongManyThreads) {
  const Grid grid = plan_grid(196, 3072, 16);
  const std::int64_t blocks = ((196 + grid.row_block - 1) / grid.row_block) *
                              ((3072 + grid.column_block - 1) / grid.column_block);
  EXPECT_GE(blocks, 16);
  EXPECT_EQ(blocks % 16, 0);
}

}  // namespace
}  // namespace fovea::cpu
