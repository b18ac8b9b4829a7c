// The search of races in tensor memory by itself, told step by step what warps do.
#include <gtest/gtest.h>

#include "emulator/races/races.hpp"
#include "emulator/races/shared_shadow.hpp"
#include "emulator/races/tensor_shadow.hpp"
#include "races_fixture.hpp"

namespace emu::races {
namespace {

constexpr std::uint64_t kForm = 0x40'0080'0000'0000;  // a product's, of an accumulator at column 0
constexpr std::uint64_t kOtherForm = 0x20'0080'0000'0000;

// A cluster of two blocks of four warps, which are 1 to 8.
class TensorRacesTest : public ::testing::Test {
 protected:
  explicit TensorRacesTest(bool needs_fences = true)
      : run_({.tensor_fences = needs_fences}),
        grid_(run_.begin_grid(false)),
        cluster_(run_, {.blocks = {{0, 0, 0}, {1, 0, 0}}, .warps = 4}, grid_) {
    cluster_.init(1, 0, mbarrier_);
  }

  Found load(Actor warp, std::size_t lane = 0) {
    return kind_of(shadow_.read(cluster_.tensor_move(warp, 1, true), {0, lane, 32, 0, 8}));
  }
  Found store(Actor warp, std::size_t lane = 0) {
    return kind_of(shadow_.write(cluster_.tensor_move(warp, 2, false), {0, lane, 32, 0, 8}));
  }
  Found issue(Actor warp, std::uint64_t form = kForm, int lane = 0) {
    const auto issued = cluster_.issue_tensor(warp, lane);
    return kind_of(shadow_.write(cluster_.tensor_view(warp, 3, issued, form), {0, 0, 128, 0, 8}));
  }
  // What the products before it have done is done.
  void commit(Actor warp, int lane = 0) {
    const auto issued = cluster_.issue_tensor(warp, lane);
    mbarrier_.sync_point.released.join(cluster_.tensor_commit(warp, issued));
    mbarrier_.complete();
  }
  void wait(Actor warp) { cluster_.wait(warp, mbarrier_.sync_point); }
  void wait_relaxed(Actor warp) { cluster_.wait_relaxed(warp, mbarrier_.sync_point); }
  void pass(Actor from, Actor to, bool is_relaxed = false) {
    SyncPoint meeting;
    if (is_relaxed) {
      cluster_.arrive_relaxed(from, meeting);
    } else {
      cluster_.arrive(from, meeting);
    }
    meeting.complete();
    if (is_relaxed) {
      cluster_.wait_relaxed(to, meeting);
    } else {
      cluster_.wait(to, meeting);
    }
  }
  // An end of the allocation would be in order.
  Found end(Actor warp) { return kind_of(shadow_.find(cluster_.tensor_end(warp, 4), 0, 8)); }

  RunRaces run_;
  std::uint32_t grid_;
  ClusterRaces cluster_;
  MbarrierSync mbarrier_;
  TensorShadow shadow_;
};

TEST_F(TensorRacesTest, LoadsComeAfterCommitsAndFences) {
  EXPECT_EQ(issue(1), kClean);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
  EXPECT_EQ(load(1), ConflictKind::kUnordered);  // of the issuer, too
  commit(1);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
  wait(2);
  EXPECT_EQ(load(2), ConflictKind::kNoTensorFence);
  cluster_.tensor_fence_after(2);
  EXPECT_EQ(load(2), kClean);
  wait(1);
  EXPECT_EQ(load(1), ConflictKind::kNoTensorFence);
  cluster_.tensor_fence_after(1);
  EXPECT_EQ(load(1), kClean);
}

TEST_F(TensorRacesTest, AFenceBeforeTheWaitIsNone) {
  EXPECT_EQ(issue(1), kClean);
  commit(1);
  cluster_.tensor_fence_after(2);
  wait(2);
  EXPECT_EQ(load(2), ConflictKind::kNoTensorFence);
}

TEST_F(TensorRacesTest, CommitsAreOfOneThread) {
  EXPECT_EQ(issue(1, kForm, 0), kClean);
  commit(1, 1);
  wait(2);
  cluster_.tensor_fence_after(2);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
}

TEST_F(TensorRacesTest, OrderIsPassedOnByThoseWhoDoNotFence) {
  EXPECT_EQ(issue(1), kClean);
  commit(1);
  wait(2);
  pass(2, 3);
  cluster_.tensor_fence_after(3);
  EXPECT_EQ(load(3), kClean);
}

TEST_F(TensorRacesTest, RelaxedOperationsCarryIt) {
  EXPECT_EQ(issue(1), kClean);
  commit(1);
  wait_relaxed(2);
  pass(2, 3, true);
  EXPECT_EQ(load(3), ConflictKind::kNoTensorFence);
  cluster_.tensor_fence_after(3);
  EXPECT_EQ(load(3), kClean);
}

// Who waits for a commit may write over what the products have read, and over what was written
// there before: by copies that the products' warp has waited for, and not by that warp itself.
TEST_F(TensorRacesTest, CommitsComeAfterWhatProductsCouldSee) {
  SharedShadow shared;
  MbarrierSync loads;
  cluster_.init(1, 0, loads);
  pass(1, 2);
  const auto load_to = [&](std::uint64_t offset) {
    return kind_of(shared.write(cluster_.async_view(1, 5, loads, true), offset, 128));
  };
  EXPECT_EQ(load_to(0), kClean);
  EXPECT_EQ(load_to(1024), kClean);
  loads.complete();
  cluster_.wait(2, loads.sync_point);
  const auto issued = cluster_.issue_tensor(2, 0);
  for (const std::uint64_t offset : {0, 1024}) {
    EXPECT_EQ(kind_of(shared.read(cluster_.tensor_shared_view(2, 3, issued), offset, 128)), kClean);
  }
  EXPECT_EQ(kind_of(shared.write(cluster_.view(2, 6), 2048, 128)), kClean);
  commit(2);
  EXPECT_EQ(load_to(0), ConflictKind::kUnordered);
  wait(1);
  EXPECT_EQ(load_to(1024), kClean);
  EXPECT_EQ(kind_of(shared.read(cluster_.view(1, 7), 2048, 128)), ConflictKind::kUnordered);
}

class TensorRacesWithoutFencesTest : public TensorRacesTest {
 protected:
  TensorRacesWithoutFencesTest() : TensorRacesTest(false) {}
};

TEST_F(TensorRacesWithoutFencesTest, WhatHasEndedIsTheSame) {
  EXPECT_EQ(issue(1), kClean);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
  commit(1);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
  wait(2);
  EXPECT_EQ(load(2), kClean);
  pass(2, 1);
  EXPECT_EQ(issue(1), ConflictKind::kUnordered);  // the load has not ended
  shadow_.clear(0, 8);
  EXPECT_EQ(load(3, 32), kClean);
  cluster_.wait_for_tensor_moves(3, true);
  pass(3, 1, true);
  EXPECT_EQ(issue(1), kClean);
}

// A stage of a ring is filled again when the products that read it have ended, and these began when
// what was there had come: the copying warp need not wait for that, too.
TEST_F(TensorRacesTest, CommitsKnowOfTheCopiesThatProductsHadWaitedFor) {
  for (const bool has_waited : {false, true}) {
    MbarrierSync full;
    cluster_.init(1, 0, full);
    SharedShadow stage;
    const auto copy = [&] {
      return kind_of(stage.write(cluster_.async_view(5, 9, full, true), 0, 64));
    };
    EXPECT_EQ(copy(), kClean);
    full.complete();
    if (has_waited) {
      cluster_.wait(1, full.sync_point);
    }
    EXPECT_EQ(issue(1), kClean);
    commit(1);
    wait(5);
    EXPECT_EQ(copy(), has_waited ? kClean : Found(ConflictKind::kUnordered));
  }
}

TEST_F(TensorRacesTest, ProductsComeAfterLoads) {
  EXPECT_EQ(load(2), kClean);
  cluster_.tensor_fence_before(2);
  pass(2, 1);
  cluster_.tensor_fence_after(1);
  EXPECT_EQ(issue(1), ConflictKind::kUnordered);  // the load has not ended

  EXPECT_EQ(load(3, 32), ConflictKind::kUnordered);
  shadow_.clear(0, 8);
  EXPECT_EQ(load(3, 32), kClean);
  cluster_.wait_for_tensor_moves(3, false);  // for the wrong ones
  cluster_.tensor_fence_before(3);
  pass(3, 1);
  cluster_.tensor_fence_after(1);
  EXPECT_EQ(issue(1), ConflictKind::kUnordered);

  shadow_.clear(0, 8);
  EXPECT_EQ(load(3, 32), kClean);
  cluster_.wait_for_tensor_moves(3, true);
  pass(3, 1);
  cluster_.tensor_fence_after(1);
  EXPECT_EQ(issue(1), ConflictKind::kNoTensorFence);  // nobody has fenced before

  shadow_.clear(0, 8);
  EXPECT_EQ(load(3, 32), kClean);
  cluster_.wait_for_tensor_moves(3, true);
  cluster_.tensor_fence_before(3);
  pass(3, 1);
  cluster_.tensor_fence_after(1);
  EXPECT_EQ(issue(1), kClean);
}

TEST_F(TensorRacesTest, AWarpWaitsForItsOwn) {
  EXPECT_EQ(store(2), kClean);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
  cluster_.wait_for_tensor_moves(2, false);
  EXPECT_EQ(load(2), kClean);
  EXPECT_EQ(store(2), ConflictKind::kUnordered);
  cluster_.wait_for_tensor_moves(2, true);
  cluster_.wait_for_tensor_moves(2, false);
  EXPECT_EQ(store(2), kClean);
  cluster_.wait_for_tensor_moves(2, false);
  EXPECT_EQ(issue(2), kClean);
}

TEST_F(TensorRacesTest, TensorCoresKeepSomeOrders) {
  EXPECT_EQ(issue(1, kCopyForm), kClean);
  EXPECT_EQ(issue(1, kForm), kClean);
  EXPECT_EQ(issue(1, kForm), kClean);
  EXPECT_EQ(issue(1, kOtherForm), ConflictKind::kUnordered);
  EXPECT_EQ(issue(1, kCopyForm), kClean);
  // Of another thread, with fences between the two.
  EXPECT_EQ(issue(2, kForm), ConflictKind::kUnordered);
  shadow_.clear(0, 8);
  EXPECT_EQ(issue(1, kCopyForm), kClean);
  cluster_.tensor_fence_before(1);
  pass(1, 2, true);
  cluster_.tensor_fence_after(2);
  EXPECT_EQ(issue(2, kForm), kClean);
  EXPECT_EQ(load(2), ConflictKind::kUnordered);
}

TEST_F(TensorRacesTest, TheEndNeedsNoFences) {
  EXPECT_EQ(issue(1), kClean);
  EXPECT_EQ(end(1), ConflictKind::kUnordered);
  commit(1);
  wait(2);
  EXPECT_EQ(end(2), kClean);
  EXPECT_EQ(end(3), ConflictKind::kUnordered);
  cluster_.tensor_fence_after(2);
  EXPECT_EQ(load(2), kClean);
  EXPECT_EQ(end(2), ConflictKind::kUnordered);
  cluster_.wait_for_tensor_moves(2, true);
  pass(2, 5);
  EXPECT_EQ(end(5), kClean);
}

TEST_F(TensorRacesTest, CellsHaveLanesOfTheirOwn) {
  EXPECT_EQ(store(1, 0), kClean);
  EXPECT_EQ(store(2, 32), kClean);
  EXPECT_EQ(load(3, 64), kClean);
  EXPECT_EQ(load(3, 32), ConflictKind::kUnordered);
  const auto conflict = shadow_.read(cluster_.tensor_move(4, 5, true), {0, 32, 16, 3, 1});
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->offset, 32U << 16U | 3U);
  EXPECT_EQ(warp_of(conflict->other), 2U);
  EXPECT_EQ(operation_number(conflict->other), 2U);
  EXPECT_TRUE(conflict->is_other_write);
}

}  // namespace
}  // namespace emu::races
