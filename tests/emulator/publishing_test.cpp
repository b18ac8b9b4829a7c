// What one lane's arrival at an mbarrier tells others of what the lanes of its warp have written,
// and arrivals of several lanes.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::uint64_t kPublishingSeeds = 20;
constexpr std::string_view kSharedVariables =
    ".shared .align 16 .b8 buffer[4096]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;";

struct Publishing {
  std::string_view write = "st.shared.u32 [%r4], %r1;";  // %r4: the lane's own word, %r9: its half
  std::string_view between{};                            // of the writes and the arrival
  unsigned arrivals = 1;
  std::string_view arrives = "setp.eq.u32 %p4, %r1, 0;";  // sets %p4 for the lanes that arrive
  std::string_view reads = "ld.shared.u32 %r8, [%r5];";   // by warp 1, %r5: its lane's word
  std::string_view more{};                                // by warp 2
};

class PublishingTest : public DeviceTest {
 protected:
  // Warp 0 writes and arrives at `full`; warp 1 waits there and reads. Every seed has the same
  // findings.
  std::set<FindingKind> of(const Publishing& parts) {
    const std::string body = fmt::format(R"(
  mov.u32 %r2, buffer;
  and.b32 %r3, %r1, 31;
  shl.b32 %r6, %r3, 2;
  add.u32 %r4, %r2, %r6;
  add.u32 %r5, %r2, %r6;
  shl.b32 %r6, %r3, 1;
  add.u32 %r9, %r2, %r6;
  shl.b32 %r6, %r3, 4;
  add.u32 %r10, %r2, %r6;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], {};
  mbarrier.init.shared::cta.b64 [empty], 1;
READY:
  bar.sync 0;
  setp.ge.u32 %p2, %r1, 64;
  @%p2 bra THIRD;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra TAKES;
  cvt.u16.u32 %rs1, %r1;
  {}
  {}
  {}
  @%p4 mbarrier.arrive.shared::cta.b64 _, [full];
  bra DONE;
TAKES:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
  @!%p3 bra TAKES;
  {}
  bra DONE;
THIRD:
  {}
DONE:)",
                                         parts.arrivals, parts.write, parts.between, parts.arrives,
                                         parts.reads, parts.more);
    const auto kinds = kinds_over(kPublishingSeeds, [&](std::uint64_t seed) {
      return run(kernel(body, kSharedVariables), put(std::vector<std::uint32_t>(1024, 1)), 96,
                 {.seed = seed});
    });
    EXPECT_TRUE(clean_ == 0 || clean_ == kPublishingSeeds)
        << clean_ << " of " << kPublishingSeeds << " seeds are clean";
    return kinds;
  }
  void expect_race(const Publishing& parts) {
    EXPECT_EQ(of(parts), std::set{FindingKind::kRace}) << last_.text();
  }
  void expect_clean(const Publishing& parts) {
    EXPECT_EQ(of(parts), std::set<FindingKind>{}) << last_.text();
  }
};

constexpr std::string_view kWarpSync = "bar.warp.sync -1;";
constexpr std::string_view kAll = "setp.eq.u32 %p4, %r1, %r1;";

TEST_F(PublishingTest, OneLaneDoesNotPublishWhatTheOthersHaveWritten) {
  expect_race({});
  EXPECT_NE(
      last_.message.find("no __syncwarp() (bar.warp.sync) orders the access before their arrival"),
      std::string::npos)
      << last_.message;
  ASSERT_TRUE(last_.other.has_value());
  EXPECT_EQ(last_.other->instruction, "st.shared.u32");
  expect_clean({.between = kWarpSync});
  expect_clean({.arrivals = 32, .arrives = kAll});
  // What comes behind the meeting is not in it.
  expect_race({.between = "bar.warp.sync -1; st.shared.u32 [%r4], %r3;"});
}

TEST_F(PublishingTest, SomeLanesPublishWhatTheyHaveWritten) {
  // Warp 1 reads lane 0's word alone, or another one's.
  expect_clean({.reads = "ld.shared.u32 %r8, [buffer];"});
  expect_race({.reads = "ld.shared.u32 %r8, [buffer+4];"});
  expect_clean({.write = "@!%p1 st.shared.u32 [%r4], %r1;", .reads = "ld.shared.u32 %r8, [%r2];"});
  // Half of the lanes, by one instruction and by two.
  constexpr std::string_view kHalf = "setp.lt.u32 %p4, %r1, 16;";
  expect_race({.arrivals = 16, .arrives = kHalf});
  expect_clean({.arrivals = 16, .arrives = kHalf, .reads = "ld.shared.u32 %r8, [buffer+60];"});
  expect_race({.arrivals = 16, .arrives = kHalf, .reads = "ld.shared.u32 %r8, [buffer+64];"});
  expect_clean({.arrivals = 32,
                .arrives = "setp.lt.u32 %p4, %r1, 16; @%p4 mbarrier.arrive.shared::cta.b64 _, "
                           "[full]; setp.ge.u32 %p4, %r1, 16;"});
  // All lanes have written one word with the same value: any of them publishes it.
  expect_clean({.write = "st.shared.u32 [buffer], 7;", .reads = "ld.shared.u32 %r8, [buffer];"});
}

TEST_F(PublishingTest, HalvesAndVectorsArePublishedLikewise) {
  const Publishing halves{.write = "st.shared.u16 [%r9], %rs1;",
                          .reads = "ld.shared.u16 %rs2, [%r9];"};
  expect_race(halves);
  expect_clean({.write = halves.write, .between = kWarpSync, .reads = halves.reads});
  const Publishing vectors{.write = "st.shared.v4.u32 [%r10], {%r1, %r1, %r1, %r1};",
                           .reads = "ld.shared.u32 %r8, [%r10+12];"};
  expect_race(vectors);
  expect_clean({.write = vectors.write, .between = kWarpSync, .reads = vectors.reads});
  const Publishing matrices{.write = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r1};",
                            .reads = "ld.shared.u32 %r8, [buffer+64];"};
  expect_race(matrices);
  expect_clean({.write = matrices.write, .between = kWarpSync, .reads = matrices.reads});
  const Publishing copies{.write =
                              "cp.async.ca.shared.global [%r4], [%rd3], 4; "
                              "cp.async.wait_all;"};
  expect_race(copies);
  expect_clean({.write = copies.write, .between = kWarpSync});
}

TEST_F(PublishingTest, OthersPassOnWhatTheyWereTold) {
  // Warp 1 tells warp 2, which reads what lanes of warp 0 have written.
  Publishing parts{.reads = "mbarrier.arrive.shared::cta.b64 _, [empty];",
                   .more =
                       "mbarrier.try_wait.parity.shared::cta.b64 %p3, [empty], 0; @!%p3 bra THIRD; "
                       "ld.shared.u32 %r8, [%r5];"};
  parts.reads = "setp.eq.u32 %p4, %r1, 32; @%p4 mbarrier.arrive.shared::cta.b64 _, [empty];";
  expect_race(parts);
  parts.between = kWarpSync;
  expect_clean(parts);
}

TEST_F(PublishingTest, TheAsynchronousProxyIsToldByTheWritersAlone) {
  Publishing parts{
      .between = "fence.proxy.async.shared::cta;",
      .reads =
          "setp.eq.u32 %p4, %r1, 32; @%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd1], "
          "[buffer], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"};
  expect_race(parts);
  parts.between = "fence.proxy.async.shared::cta; bar.warp.sync -1;";
  expect_clean(parts);
}

// Global memory has the order of the warp, whose lanes run in step.
TEST_F(PublishingTest, GlobalMemoryIsPublishedByAnyLane) {
  expect_clean({.write = "st.global.u32 [%rd3], %r1; st.shared.u32 [%r4], %r1;",
                .reads = "ld.global.u32 %r8, [%rd3+-128];"});
}

// CUTLASS's producers end so: lanes of one instruction arrive at another block's mbarrier.
TEST_F(PublishingTest, SeveralLanesArriveAtAnotherBlocksMbarrier) {
  const auto findings = [&](std::string_view wait, std::string_view how) {
    const std::string body = fmt::format(R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 8;
  @%p1 fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  setp.ne.u32 %p2, %r2, 1;
  @%p2 bra WAITS;
  setp.lt.u32 %p3, %r1, 8;
  mov.u32 %r5, full;
  mov.u32 %r4, 0;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  @%p3 mbarrier.arrive{}.shared::cluster.b64 _, [%r6];
  bra DONE;
WAITS:
  {}
DONE:)",
                                         how, wait);
    return kinds_over(kPublishingSeeds, [&](std::uint64_t seed) {
      return run(kernel(body, kSharedVariables), put(std::vector<std::uint32_t>(64, 1)),
                 LaunchConfig{.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}},
                 {.seed = seed});
    });
  };
  constexpr std::string_view kWait =
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [full], 0; @!%p4 bra WAITS;";
  EXPECT_EQ(findings(kWait, ".release.cluster"), std::set<FindingKind>{}) << last_.text();
  EXPECT_EQ(findings("", ".release.cluster"), std::set{FindingKind::kLifetime});
  EXPECT_EQ(clean_, 0U);
}

}  // namespace
}  // namespace emu
