// The search of races in global memory: clusters of a grid, and grids that follow one another or
// overlap.
#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "emulator/races/global_shadow.hpp"
#include "emulator/races/races.hpp"
#include "races_fixture.hpp"

namespace emu::races {
namespace {

// Clusters of grids, in global memory.
class GridsTest : public ::testing::Test {
 protected:
  void begin(bool is_dependent = false) { number_ = run_.begin_grid(is_dependent); }
  ClusterRaces cluster() { return {run_, record(), number_}; }
  static RunRaces::Record record() { return {.blocks = {{0, 0, 0}}, .warps = 6}; }

  Found read(const ClusterRaces& cluster, Actor warp = 1, std::uint64_t at = 0) {
    return kind_of(global_.read(cluster.view(warp, 0), at, 4));
  }
  Found read_only(const ClusterRaces& cluster, Actor warp = 1) {
    return kind_of(global_.read(cluster.view(warp, 0, true), 0, 4));
  }
  Found write(const ClusterRaces& cluster, Actor warp = 1, std::uint64_t at = 0) {
    return kind_of(global_.write(cluster.view(warp, 0), at, 4));
  }

  RunRaces run_;
  GlobalShadow global_;
  std::uint32_t number_ = 0;
};

TEST_F(GridsTest, ClustersOfAGridHaveNoOrder) {
  begin();
  const ClusterRaces one = cluster();
  const ClusterRaces other = cluster();
  EXPECT_EQ(write(one), kClean);
  EXPECT_EQ(read(other), ConflictKind::kUnordered);
  begin();
  const ClusterRaces next = cluster();
  EXPECT_EQ(read(next), kClean);
  EXPECT_EQ(write(next), kClean);
}

TEST_F(GridsTest, GridsThatOverlapHaveOrderOnlyOnceOneHasWaited) {
  begin();
  const ClusterRaces first = cluster();
  EXPECT_EQ(write(first, 1, 0), kClean);
  EXPECT_EQ(read(first, 1, 64), kClean);
  begin(true);
  ClusterRaces second = cluster();
  EXPECT_EQ(read(second), ConflictKind::kUnordered);
  EXPECT_EQ(write(second, 2, 64), ConflictKind::kUnordered);
  EXPECT_EQ(write(first, 1, 4), kClean);
  EXPECT_EQ(read(first, 1, 68), kClean);
  second.wait_for_grid(1);
  EXPECT_EQ(read(second, 1, 4), kClean);
  EXPECT_EQ(write(second, 1, 68), kClean);
  EXPECT_EQ(read(second, 2, 4), ConflictKind::kUnordered);  // another warp, which has not
  SyncPoint meeting;
  second.arrive(1, meeting);
  meeting.complete();
  second.wait(2, meeting);
  EXPECT_EQ(read(second, 2, 4), kClean);
  const auto tensor = second.async_view(2, 0, GroupKind::kBulkRead, false);
  EXPECT_EQ(kind_of(global_.read(tensor, 4, 4)), kClean);
}

TEST_F(GridsTest, WhatIsReadOnlyIsWrittenBeforeTheGridBegins) {
  begin();
  const ClusterRaces first = cluster();
  EXPECT_EQ(write(first), kClean);
  EXPECT_EQ(read_only(first), ConflictKind::kReadOnlyWritten);
  begin(true);
  ClusterRaces second = cluster();
  second.wait_for_grid(1);
  EXPECT_EQ(read_only(second), ConflictKind::kReadOnlyWritten);
  begin();
  EXPECT_EQ(read_only(cluster()), kClean);
}

// The one before has waited for the first grid or not, before it has let this one start, after
// that, or never.
TEST_F(GridsTest, AWaitIsForTheGridBeforeAloneAndWhatThatKnows) {
  for (const bool waits : {false, true}) {
    for (const bool is_early : {false, true}) {
      const std::uint64_t at = waits ? is_early ? 0 : 64 : is_early ? 128 : 192;
      begin();
      EXPECT_EQ(write(cluster(), 1, at), kClean);
      begin(true);
      ClusterRaces second = cluster();
      if (waits && is_early) {
        second.wait_for_grid(1);
      }
      second.release_grid(1);
      begin(true);
      ClusterRaces third = cluster();
      if (waits && !is_early) {
        second.wait_for_grid(1);
      }
      EXPECT_EQ(write(second, 1, at + 32), kClean);
      const Found unless = waits ? kClean : Found(ConflictKind::kUnordered);
      EXPECT_EQ(read(third, 2, at), waits && is_early ? kClean : Found(ConflictKind::kUnordered));
      EXPECT_EQ(read(third, 2, at + 32), ConflictKind::kUnordered);
      third.wait_for_grid(1);
      EXPECT_EQ(read(third, 1, at), unless) << waits << is_early;
      EXPECT_EQ(read(third, 1, at + 32), kClean);
      begin(true);
      ClusterRaces fourth = cluster();
      fourth.wait_for_grid(1);
      EXPECT_EQ(read(fourth, 1, at), unless);
      EXPECT_EQ(read(fourth, 1, at + 32), kClean);
      begin();
      EXPECT_EQ(read(cluster(), 1, at), kClean);
    }
  }
}

TEST_F(GridsTest, TheAsynchronousProxyNeedsAFenceInGlobalMemoryToo) {
  begin();
  ClusterRaces one = cluster();
  EXPECT_EQ(write(one), kClean);
  const auto copies = [&] {
    return kind_of(global_.read(one.async_view(1, 0, GroupKind::kBulkRead, false), 0, 4));
  };
  EXPECT_EQ(copies(), ConflictKind::kNoProxyFence);
  one.fence_async(1, true, false);
  EXPECT_EQ(copies(), ConflictKind::kNoProxyFence);
  one.fence_async(1, false, true);
  EXPECT_EQ(copies(), kClean);
}

TEST_F(GridsTest, EveryReaderCounts) {
  begin();
  for (Actor missing = 2; missing <= 6; ++missing) {
    ClusterRaces one = cluster();
    const std::uint64_t at = missing * 4;
    for (int round = 0; round < 2; ++round) {
      for (Actor warp = 1; warp <= 6; ++warp) {
        EXPECT_EQ(read(one, warp, at), kClean);
      }
    }
    SyncPoint meeting;
    for (Actor warp = 2; warp <= 6; ++warp) {
      if (warp != missing) {
        one.arrive(warp, meeting);
      }
    }
    meeting.complete();
    one.wait(1, meeting);
    EXPECT_EQ(write(one, 1, at), ConflictKind::kUnordered) << missing;
  }
}

TEST_F(GridsTest, ReadersOfOtherClustersCount) {
  begin();
  const std::array clusters = {cluster(), cluster(), cluster()};
  for (std::size_t writer = 0; writer < 3; ++writer) {
    const std::uint64_t at = writer * 4;
    for (const std::size_t reader : {0, 1, 0, 2, 2, 1, 0}) {
      EXPECT_EQ(read(clusters.at(reader), 1 + reader % 2, at), kClean);
    }
    EXPECT_EQ(write(clusters.at(writer), 1, at), ConflictKind::kUnordered);
  }
  EXPECT_EQ(read(clusters[0], 1, 64), kClean);
  EXPECT_EQ(read(clusters[1], 1, 64), kClean);
  begin();
  const ClusterRaces next = cluster();
  EXPECT_EQ(read(next, 2, 64), kClean);
  EXPECT_EQ(read(next, 1, 64), kClean);
  EXPECT_EQ(write(next, 1, 64), ConflictKind::kUnordered);  // its own warp 2
  EXPECT_EQ(read(clusters[0], 1, 68), kClean);
  EXPECT_EQ(read(next, 1, 68), kClean);
  EXPECT_EQ(write(next, 1, 68), kClean);
}

}  // namespace
}  // namespace emu::races
