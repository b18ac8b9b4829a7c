// The search of races by itself: clocks, shadows and rules, told step by step what warps do.
#include "emulator/races/races.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "emulator/races/global_shadow.hpp"
#include "emulator/races/shared_shadow.hpp"
#include "races_fixture.hpp"

namespace emu::races {
namespace {

// A grid of one cluster of two blocks of four warps, which are 1 to 8.
class RacesTest : public ::testing::Test {
 protected:
  RacesTest() : grid_(run_.begin_grid(false)), cluster_(run_, record(), grid_) {}

  static RunRaces::Record record() { return {.blocks = {{0, 0, 0}, {1, 0, 0}}, .warps = 4}; }

  Found read(Actor warp, std::uint64_t at = 0, std::size_t bytes = 4) {
    return kind_of(shared_.read(cluster_.view(warp, 7), at, bytes));
  }
  Found write(Actor warp, std::uint64_t at = 0, std::size_t bytes = 4) {
    return kind_of(shared_.write(cluster_.view(warp, 8), at, bytes));
  }
  Found read_async(Actor warp, GroupKind kind, std::uint64_t at = 0) {
    return kind_of(shared_.read(cluster_.async_view(warp, 9, kind, true), at, 4));
  }
  Found write_async(Actor warp, const MbarrierSync& mbarrier, std::uint64_t at = 0) {
    return kind_of(shared_.write(cluster_.async_view(warp, 9, mbarrier, true), at, 4));
  }
  void pass(Actor from, Actor to) {
    SyncPoint meeting;
    cluster_.arrive(from, meeting);
    meeting.complete();
    cluster_.wait(to, meeting);
  }

  RunRaces run_;
  std::uint32_t grid_;
  ClusterRaces cluster_;
  SharedShadow shared_;
};

TEST_F(RacesTest, WarpsThatHaveNotMetRace) {
  EXPECT_EQ(write(1), kClean);
  EXPECT_EQ(write(1), kClean);
  EXPECT_EQ(read(1), kClean);
  pass(1, 2);
  EXPECT_EQ(read(2), kClean);
  const auto conflict = shared_.read(cluster_.view(7, 3), 0, 4);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->kind, ConflictKind::kUnordered);
  EXPECT_TRUE(conflict->is_other_write);
  EXPECT_EQ(warp_of(conflict->other), 1U);
  EXPECT_EQ(operation_number(conflict->other), 8U);
  EXPECT_EQ(write(1), ConflictKind::kUnordered);  // 2 has read it
}

TEST_F(RacesTest, WhatFollowsAnArrivalIsNotBrought) {
  SyncPoint meeting;
  cluster_.arrive(1, meeting);
  EXPECT_EQ(write(1), kClean);
  meeting.complete();
  cluster_.wait(2, meeting);
  EXPECT_EQ(read(2), ConflictKind::kUnordered);
}

TEST_F(RacesTest, OrderIsPassedOn) {
  EXPECT_EQ(write(1), kClean);
  pass(1, 2);
  pass(2, 3);
  EXPECT_EQ(write(3), kClean);
  EXPECT_EQ(write(2), ConflictKind::kUnordered);
}

TEST_F(RacesTest, OnlyThoseWhoWaitTakeWhatANamedBarrierBrings) {
  EXPECT_EQ(write(1), kClean);
  SyncPoint meeting;
  cluster_.arrive(1, meeting);
  cluster_.arrive(2, meeting);
  meeting.waiting = {2};
  cluster_.release(meeting);
  EXPECT_EQ(read(2), kClean);
  // Others meet there later.
  cluster_.arrive(3, meeting);
  meeting.waiting = {3};
  cluster_.release(meeting);
  EXPECT_EQ(read(3), ConflictKind::kUnordered);
}

TEST_F(RacesTest, AStrongStoreTakesThePlaceOfARelease) {
  const StrongAccess release{.scope = Scope::kBlock, .releases = true};
  const StrongAccess acquire{.scope = Scope::kBlock, .acquires = true};
  const auto found = [&](const StrongAccess& between, Actor reader, std::uint64_t at) {
    Location location;
    EXPECT_EQ(write(1, at), kClean);
    cluster_.write_strong(1, release, location);
    cluster_.write_strong(2, between, location);
    cluster_.read_strong(reader, acquire, location);
    return read(reader, at);
  };
  EXPECT_EQ(found({.scope = Scope::kBlock, .is_atomic = true}, 3, 0), kClean);
  EXPECT_EQ(found({.scope = Scope::kBlock}, 3, 4), ConflictKind::kUnordered);
  // Warps of another block are beyond the scope.
  EXPECT_EQ(found({.scope = Scope::kBlock, .is_atomic = true}, 5, 8), ConflictKind::kUnordered);
}

TEST_F(RacesTest, TheAsynchronousProxyNeedsAFence) {
  enum class Where { kNowhere, kBefore, kWriter, kReader, kOfGlobalMemory };
  const auto found = [&](Where where, std::uint64_t at) {
    if (where == Where::kBefore) {
      cluster_.fence_async(1, true, true);
    }
    EXPECT_EQ(write(1, at), kClean);
    if (where == Where::kWriter) {
      cluster_.fence_async(1, true, false);
    }
    if (where == Where::kOfGlobalMemory) {
      cluster_.fence_async(1, false, true);
    }
    pass(1, 2);
    if (where == Where::kReader) {
      cluster_.fence_async(2, true, true);
    }
    return read_async(2, GroupKind::kBulkRead, at);
  };
  EXPECT_EQ(found(Where::kNowhere, 0), ConflictKind::kNoProxyFence);
  EXPECT_EQ(found(Where::kBefore, 4), ConflictKind::kNoProxyFence);
  EXPECT_EQ(found(Where::kOfGlobalMemory, 8), ConflictKind::kNoProxyFence);
  EXPECT_EQ(found(Where::kWriter, 12), kClean);
  EXPECT_EQ(found(Where::kReader, 16), kClean);
  // A fence is no meeting.
  EXPECT_EQ(write(1, 20), kClean);
  cluster_.fence_async(1, true, true);
  cluster_.fence_async(2, true, true);
  EXPECT_EQ(read_async(2, GroupKind::kBulkRead, 20), ConflictKind::kUnordered);
}

TEST_F(RacesTest, CopiesUnderAnMbarrierAreThereWhenItsPhaseEnds) {
  MbarrierSync full;
  MbarrierSync empty;
  cluster_.init(1, 1, full);
  cluster_.init(1, 1, empty);
  EXPECT_EQ(write_async(1, full), kClean);
  EXPECT_EQ(write_async(1, full), ConflictKind::kUnordered);  // twice in a phase
  full.complete();
  EXPECT_EQ(read(2), ConflictKind::kUnordered);  // it has not asked
  cluster_.wait(2, full.sync_point);
  EXPECT_EQ(read(2), kClean);
  EXPECT_EQ(read_async(2, GroupKind::kProduct), kClean);  // without a fence
  // The stage is used again once all who have read it say so.
  const std::uint32_t group = cluster_.commit(2, GroupKind::kProduct);
  cluster_.arrive(2, empty.sync_point);
  empty.complete();
  cluster_.wait(1, empty.sync_point);
  EXPECT_EQ(write_async(1, full), ConflictKind::kUnordered);  // the product goes on
  EXPECT_EQ(write_async(1, full, 64), kClean);
  full.complete();
  cluster_.wait(2, full.sync_point);
  EXPECT_EQ(read(2, 64), kClean);
  EXPECT_EQ(read_async(2, GroupKind::kProduct, 64), kClean);
  cluster_.wait_groups(2, GroupKind::kProduct, group + 1);
  EXPECT_EQ(write_async(1, full, 64), ConflictKind::kUnordered);  // 2 has not told
}

TEST_F(RacesTest, AStageIsUsedAgain) {
  MbarrierSync full;
  MbarrierSync empty;
  cluster_.init(1, 1, full);
  cluster_.init(1, 1, empty);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(write_async(1, full), kClean);
    full.complete();
    cluster_.wait(2, full.sync_point);
    ASSERT_EQ(read(2), kClean);
    ASSERT_EQ(read_async(2, GroupKind::kProduct), kClean);
    cluster_.wait_groups(2, GroupKind::kProduct, cluster_.commit(2, GroupKind::kProduct));
    cluster_.arrive(2, empty.sync_point);
    empty.complete();
    cluster_.wait(1, empty.sync_point);
  }
}

TEST_F(RacesTest, GroupsHaveReadTheirSourceBeforeTheyHaveWritten) {
  GlobalShadow global;
  EXPECT_EQ(write(1), kClean);
  cluster_.fence_async(1, true, true);
  EXPECT_EQ(read_async(1, GroupKind::kBulkRead), kClean);
  EXPECT_EQ(kind_of(global.write(cluster_.async_view(1, 2, GroupKind::kBulkWrite, false), 0, 4)),
            kClean);
  const std::uint32_t group = cluster_.commit(1, GroupKind::kBulkRead);
  EXPECT_EQ(cluster_.commit(1, GroupKind::kBulkWrite), group);
  cluster_.wait_groups(1, GroupKind::kBulkRead, group - 1);
  SharedShadow copy = std::move(shared_);
  shared_ = SharedShadow();
  EXPECT_EQ(kind_of(copy.write(cluster_.view(1, 8), 0, 4)), ConflictKind::kUnordered);
  EXPECT_EQ(read_async(1, GroupKind::kBulkRead), kClean);  // in the next group
  cluster_.wait_groups(1, GroupKind::kBulkRead, group);
  EXPECT_EQ(write(1), ConflictKind::kUnordered);
  cluster_.wait_groups(1, GroupKind::kBulkRead, group + 1);
  EXPECT_EQ(write(1), kClean);
  EXPECT_EQ(kind_of(global.read(cluster_.view(1, 8), 0, 4)), ConflictKind::kUnordered);
  cluster_.wait_groups(1, GroupKind::kBulkWrite, group);
  EXPECT_EQ(kind_of(global.read(cluster_.view(1, 8), 0, 4)), kClean);
}

TEST_F(RacesTest, TheWarpsOfAWarpgroupWaitForItsProducts) {
  EXPECT_EQ(read_async(5, GroupKind::kProduct), kClean);
  cluster_.wait_groups(6, GroupKind::kProduct, cluster_.commit(6, GroupKind::kProduct));
  EXPECT_EQ(write(6), kClean);
  EXPECT_EQ(read_async(5, GroupKind::kProduct, 8), kClean);
  cluster_.wait_groups(4, GroupKind::kProduct, 1);  // of another
  EXPECT_EQ(write(4, 8), ConflictKind::kUnordered);
}

TEST_F(RacesTest, CopiesAreNobodysUntilTheyAreSettled) {
  EXPECT_EQ(kind_of(shared_.write(cluster_.copy_view(1, 3), 0, 16)), kClean);
  EXPECT_EQ(read(1, 4), ConflictKind::kUnordered);
  shared_.settle(cluster_.settled_access(1, 3), 0, 16);
  EXPECT_EQ(read(1, 4), kClean);
  EXPECT_EQ(read(2, 4), ConflictKind::kUnordered);
  pass(1, 2);
  EXPECT_EQ(read(2, 4), kClean);
  EXPECT_EQ(kind_of(shared_.write(cluster_.copy_view(2, 3), 0, 16)), kClean);
}

TEST_F(RacesTest, BytesOfAWordAreToldApart) {
  EXPECT_EQ(write(1, 0, 64), kClean);
  pass(1, 2);
  pass(1, 3);
  EXPECT_EQ(write(2, 8, 2), kClean);
  EXPECT_EQ(write(3, 10, 1), kClean);
  EXPECT_EQ(read(3, 11, 1), kClean);
  EXPECT_EQ(read(2, 11, 1), kClean);
  EXPECT_EQ(read(3, 12, 4), kClean);
  EXPECT_EQ(read(3, 8, 1), ConflictKind::kUnordered);
  EXPECT_EQ(write(2, 11, 1), ConflictKind::kUnordered);
  EXPECT_EQ(write(2, 1022, 4), kClean);  // from one page to the next
  EXPECT_EQ(write(3, 1026, 1), kClean);
  EXPECT_EQ(write(3, 1025, 1), ConflictKind::kUnordered);
}

TEST_F(RacesTest, MbarriersBeginBeforeTheyAreUsed) {
  MbarrierSync mbarrier;
  cluster_.init(1, 1, mbarrier);
  EXPECT_TRUE(cluster_.is_initialized(1, mbarrier, false));
  EXPECT_FALSE(cluster_.is_initialized(1, mbarrier, true));
  EXPECT_FALSE(cluster_.is_initialized(2, mbarrier, false));
  // The fence goes with an arrival that brings nothing else.
  EXPECT_EQ(write(1), kClean);
  cluster_.fence_init(1);
  EXPECT_TRUE(cluster_.is_initialized(1, mbarrier, true));
  SyncPoint meeting;
  cluster_.arrive_relaxed(1, meeting);
  meeting.complete();
  cluster_.wait(2, meeting);
  EXPECT_TRUE(cluster_.is_initialized(2, mbarrier, false));
  EXPECT_TRUE(cluster_.is_initialized(2, mbarrier, true));
  EXPECT_FALSE(cluster_.is_initialized(3, mbarrier, false));
  EXPECT_EQ(read(2), ConflictKind::kUnordered);
  pass(1, 3);
  EXPECT_TRUE(cluster_.is_initialized(3, mbarrier, true));
  // A later one is not covered.
  MbarrierSync later;
  cluster_.init(1, 1, later);
  pass(1, 4);
  EXPECT_TRUE(cluster_.is_initialized(4, later, false));
  EXPECT_FALSE(cluster_.is_initialized(4, later, true));
  cluster_.fence_async(4, true, false);
  EXPECT_TRUE(cluster_.is_initialized(4, later, true));
}

TEST_F(RacesTest, LanesThatHavePartedRaceUntilTheyMeet) {
  EXPECT_EQ(write(1, 0), kClean);
  const auto one = cluster_.create_fragment(1, 0);
  const auto other = cluster_.create_fragment(1, 0);
  cluster_.run_fragment(1, one);
  EXPECT_EQ(read(1, 0), kClean);
  EXPECT_EQ(write(1, 4), kClean);
  const auto first = cluster_.create_fragment(1, one);
  const auto second = cluster_.create_fragment(1, one);
  cluster_.run_fragment(1, first);
  EXPECT_EQ(write(1, 4), kClean);  // after what its lanes did before they parted
  EXPECT_EQ(write(1, 8), kClean);
  cluster_.run_fragment(1, second);
  EXPECT_EQ(read(1, 8), ConflictKind::kUnordered);
  EXPECT_EQ(write(1, 12), kClean);
  cluster_.run_fragment(1, other);
  EXPECT_EQ(read(1, 12), ConflictKind::kUnordered);
  EXPECT_EQ(read(1, 4), ConflictKind::kUnordered);
  cluster_.join_fragment(1, first, one);
  cluster_.join_fragment(1, second, one);
  cluster_.run_fragment(1, one);
  EXPECT_EQ(write(1, 8), kClean);
  EXPECT_EQ(write(1, 12), ConflictKind::kUnordered);  // `other` has read it
  cluster_.run_fragment(1, other);
  EXPECT_EQ(write(1, 8), ConflictKind::kUnordered);
  cluster_.join_fragment(1, one, 0);
  cluster_.join_fragment(1, other, 0);
  cluster_.run_fragment(1, 0);
  EXPECT_EQ(write(1, 12), kClean);
  EXPECT_EQ(write(1, 4), kClean);
}

// A split that goes on as a fragment of its own beside one that has left it.
TEST_F(RacesTest, FragmentsOfFragmentsMeetToo) {
  const auto left = cluster_.create_fragment(1, 0);
  const auto right = cluster_.create_fragment(1, 0);
  cluster_.run_fragment(1, left);
  EXPECT_EQ(write(1, 0), kClean);
  const auto stays = cluster_.create_fragment(1, left);
  const auto leaves = cluster_.create_fragment(1, left);
  cluster_.run_fragment(1, stays);
  EXPECT_EQ(write(1, 4), kClean);
  cluster_.join_fragment(1, stays, 0);
  cluster_.run_fragment(1, leaves);
  EXPECT_EQ(read(1, 0), kClean);
  EXPECT_EQ(read(1, 4), ConflictKind::kUnordered);
  cluster_.run_fragment(1, right);
  EXPECT_EQ(read(1, 0), ConflictKind::kUnordered);
}

}  // namespace
}  // namespace emu::races
