// Groups of a warp's lanes: instructions that lanes with different masks run at once, or come to
// apart; barriers to which lanes come apart, and those that count predicates.
#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

class LaneGroupsTest : public DeviceTest {
 protected:
  // The words that a body has written to its own places; %r2 is the mask of the lane's group of
  // eight, and x = %r3 is different in each lane.
  std::vector<std::uint32_t> written(std::string_view body, std::uint32_t threads = 32) {
    return after<std::uint32_t>(
        fmt::format("and.b32 %r4, %r1, 24; mov.u32 %r2, 0xFF; shl.b32 %r2, %r2, %r4;"
                    "mad.lo.u32 %r3, %r1, 7, 3; {}",
                    body),
        std::vector<std::uint32_t>(threads, 0), threads);
  }
  static std::uint32_t x(std::uint32_t lane) { return lane * 7 + 3; }
};

TEST_F(LaneGroupsTest, EachGroupIsByItself) {
  const auto shuffled = written(
      "shfl.sync.bfly.b32 %r5, %r3, 5, 0x181F, %r2;"
      "st.global.u32 [%rd3], %r5;");
  const auto ballots = written(
      "and.b32 %r6, %r1, 3; setp.eq.u32 %p1, %r6, 1;"
      "vote.sync.ballot.b32 %r5, %p1, %r2; st.global.u32 [%rd3], %r5;");
  const auto sums = written("redux.sync.add.u32 %r5, %r3, %r2; st.global.u32 [%rd3], %r5;");
  const auto leaders = written(
      "elect.sync %r5|%p1, %r2; selp.u32 %r6, 100, 0, %p1;"
      "add.u32 %r5, %r5, %r6; st.global.u32 [%rd3], %r5;");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t first = lane & 24U;
    EXPECT_EQ(shuffled[lane], x(lane ^ 5U));
    EXPECT_EQ(ballots[lane], 0x22U << first);
    EXPECT_EQ(sums[lane], 8 * x(first) + 7 * 28);
    EXPECT_EQ(leaders[lane], first + (lane == first ? 100 : 0));
  }
}

TEST_F(LaneGroupsTest, Matches) {
  const auto any = written(
      "and.b32 %r5, %r1, 5; match.any.sync.b32 %r6, %r5, %r2;"
      "st.global.u32 [%rd3], %r6;");
  const auto wide = written(
      "and.b32 %r5, %r1, 1; cvt.u64.u32 %rd4, %r5; shl.b64 %rd4, %rd4, 40;"
      "match.any.sync.b64 %r6, %rd4, -1; st.global.u32 [%rd3], %r6;");
  const auto all = written(
      "shr.u32 %r5, %r1, 4; match.all.sync.b32 %r6|%p1, %r5, %r2;"
      "selp.u32 %r7, 1, 0, %p1; add.u32 %r6, %r6, %r7;"
      "st.global.u32 [%rd3], %r6;");
  const auto none = written(
      "match.all.sync.b32 %r6|%p1, %r1, %r2; selp.u32 %r7, 1, 0, %p1;"
      "add.u32 %r6, %r6, %r7; st.global.u32 [%rd3], %r6;");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    std::uint32_t same = 0;
    for (std::uint32_t other = lane & 24U; other < (lane & 24U) + 8; ++other) {
      same |= (other & 5U) == (lane & 5U) ? 1U << other : 0;
    }
    EXPECT_EQ(any[lane], same);
    EXPECT_EQ(wide[lane], (lane & 1U) != 0 ? 0xAAAAAAAAU : 0x55555555U);
    EXPECT_EQ(all[lane], (0xFFU << (lane & 24U)) + 1);
    EXPECT_EQ(none[lane], 0U);
  }
}

// Lanes that have parted meet at a warp-wide instruction, each time round the loop that they leave
// at different times.
TEST_F(LaneGroupsTest, GroupsThatLoopByThemselves) {
  const auto sums = written(R"(
  shr.u32 %r5, %r1, 3;
  mov.u32 %r6, 0;
LOOP:
  shfl.sync.bfly.b32 %r7, %r3, 1, 0x181F, %r2;
  add.u32 %r6, %r6, %r7;
  sub.u32 %r5, %r5, 1;
  setp.ge.s32 %p1, %r5, 0;
  @%p1 bra LOOP;
  st.global.u32 [%rd3], %r6;
)");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(sums[lane], (lane / 8 + 1) * x(lane ^ 1U));
  }
}

// Halves of a warp that meet at bar.warp.sync on two ways of a branch exchange words.
TEST_F(LaneGroupsTest, LanesMeetAtBarriersOnTwoWays) {
  const auto body = [](std::string_view first, std::string_view second) {
    return fmt::format(R"(
  mov.u32 %r4, cells;
  mad.lo.u32 %r5, %r1, 4, %r4;
  xor.b32 %r6, %r1, 16;
  mad.lo.u32 %r6, %r6, 4, %r4;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra LOW;
  st.shared.u32 [%r5], %r1;
  {}
  ld.shared.u32 %r7, [%r6];
  bra END;
LOW:
  st.shared.u32 [%r5], %r1;
  {}
  ld.shared.u32 %r7, [%r6];
END:
  st.global.u32 [%rd3], %r7;
)",
                       first, second);
  };
  constexpr std::string_view kCells = ".shared .align 4 .b8 cells[128];";
  for (const std::string_view barrier : {"bar.warp.sync -1;", "barrier.sync 0;"}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(32, 0));
      const Report report = run(kernel(body(barrier, barrier), kCells), memory, 32, {.seed = seed});
      ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
      const auto result = get<std::uint32_t>(memory, 32);
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        EXPECT_EQ(result[lane], lane ^ 16U);
      }
    }
  }
  EXPECT_EQ(finding_of(body("", ""), 32, kCells), FindingKind::kRace);
  EXPECT_EQ(finding_of(body("bar.warp.sync 0xFFFF0000;", "bar.warp.sync 0xFFFF;"), 32, kCells),
            FindingKind::kRace);
}

TEST_F(LaneGroupsTest, LanesThatCannotComeAreFound) {
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; bar.warp.sync -1; OUT:"),
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; bar.warp.sync 0x7F; OUT:"),
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; barrier.sync 0; bra END; "
                       "OUT: barrier.sync 1; END:",
                       64),
            FindingKind::kDeadlock);
  // Lanes that have exited are not awaited at a barrier of the block.
  after<std::uint32_t>("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; barrier.sync 0; OUT:",
                       std::vector<std::uint32_t>(64), 64);
  EXPECT_EQ(finding_of("bar.warp.sync %r9;"), FindingKind::kUninitialized);
}

TEST_F(LaneGroupsTest, BarriersCountPredicates) {
  const auto counted = written(
      "setp.lt.u32 %p1, %r1, 37; bar.red.popc.u32 %r5, 0, %p1; bar.red.popc.u32 %r6, 0, !%p1;"
      "shl.b32 %r6, %r6, 16; add.u32 %r5, %r5, %r6; st.global.u32 [%rd3], %r5;",
      96);
  const auto logic = written(
      "setp.lt.u32 %p1, %r1, 96; setp.lt.u32 %p2, %r1, 95; setp.eq.u32 %p3, %r1, 50;"
      "bar.red.and.pred %p4, 1, 96, %p1; selp.u32 %r5, 1, 0, %p4;"
      "bar.red.and.pred %p4, 1, 96, %p2; selp.u32 %r6, 2, 0, %p4; add.u32 %r5, %r5, %r6;"
      "barrier.red.or.pred %p4, 2, %p3; selp.u32 %r6, 4, 0, %p4; add.u32 %r5, %r5, %r6;"
      "setp.eq.u32 %p3, %r1, 500;"
      "bar.red.or.pred %p4, 0, %p3; selp.u32 %r6, 8, 0, %p4; add.u32 %r5, %r5, %r6;"
      "st.global.u32 [%rd3], %r5;",
      96);
  for (std::uint32_t i = 0; i < 96; ++i) {
    EXPECT_EQ(counted[i], 37U + (59U << 16U));
    EXPECT_EQ(logic[i], 5U);
  }
  EXPECT_EQ(finding_of("bar.red.popc.u32 %r5, 0, %p1;"), FindingKind::kUninitialized);
}

TEST_F(LaneGroupsTest, UnknownModifiersAreRefused) {
  for (const std::string_view line :
       {"match.any.b32 %r2, %r1, -1;", "match.any.sync.u32 %r2, %r1, -1;",
        "bar.red.xor.pred %p1, 0, %p2;", "bar.red.popc.pred %p1, 0, %p2;", "bar.warp.arrive -1;",
        "shfl.idx.b32 %r2, %r1, 0, 31;", "redux.sync.add.b32 %r2, %r1, -1;",
        "barrier.cluster.sync;"}) {
    EXPECT_THROW(static_cast<void>(device_.load(kernel(line))), std::exception) << line;
  }
}

// The blocks of a cooperative launch wait for each other, however many may run at a time.
TEST_F(LaneGroupsTest, AGridMeetsInACooperativeLaunch) {
  const std::string grid = kernel(R"(
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  mul.wide.u32 %rd5, %r2, 4;
  add.s64 %rd6, %rd1, %rd5;
  st.global.u32 [%rd6+64], %r2;
  atom.add.release.gpu.global.u32 %r4, [%rd1], 1;
WAIT:
  ld.acquire.gpu.global.u32 %r5, [%rd1];
  setp.lt.u32 %p1, %r5, %r3;
  @%p1 bra WAIT;
  sub.u32 %r6, %r3, %r2;
  sub.u32 %r6, %r6, 1;
  mul.wide.u32 %rd5, %r6, 4;
  add.s64 %rd7, %rd1, %rd5;
  ld.global.u32 %r7, [%rd7+64];
  st.global.u32 [%rd6+128], %r7;
)");
  for (const bool is_cooperative : {false, true}) {
    const auto kinds = kinds_over(10, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(64, 0));
      const Report report =
          run(grid, memory,
              LaunchConfig{.grid = {9, 1, 1}, .block = {1, 1, 1}, .is_cooperative = is_cooperative},
              {.seed = seed, .max_steps = 100'000});
      const auto result = get<std::uint32_t>(memory, 64);
      for (std::uint32_t block = 0; is_cooperative && block < 9; ++block) {
        EXPECT_EQ(result[32 + block], 8 - block);
      }
      return report;
    });
    EXPECT_EQ(kinds, is_cooperative ? std::set<FindingKind>{}
                                    : std::set<FindingKind>{FindingKind::kNoProgress});
  }
}

// Cooperative groups of several warps meet in zeros that the system reserves for them.
TEST_F(LaneGroupsTest, ScratchOfGroups) {
  constexpr std::string_view kMeet = R"(
  mov.u32 %r2, %reserved_smem_offset_1;
  red.shared.add.u32 [%r2+284], 1;
  bar.sync 0;
  ld.shared.u32 %r3, [%r2+284];
  st.global.u32 [%rd3], %r3;)";
  EXPECT_EQ(after<std::uint32_t>(kMeet, std::vector<std::uint32_t>(64), 64),
            std::vector<std::uint32_t>(64, 64));
  EXPECT_EQ(finding_of("mov.u32 %r2, %reserved_smem_offset_1; ld.shared.u32 %r3, [%r2+-4];"),
            FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("ld.shared.u32 %r3, [1020];"), FindingKind::kOutOfBounds);
}

}  // namespace
}  // namespace emu
