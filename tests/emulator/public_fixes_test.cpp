// Mistakes in the style of those that public kernels were mended of, each beside the kernel with
// the fix: the mistake is found on every schedule, the fix on none.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

struct PublicFix {
  std::string_view name;
  FindingKind kind;
  std::string_view body;  // {} stands for the part that was mended
  std::string_view wrong;
  std::string_view right;
  LaunchConfig config{.block = {64, 1, 1}};
  std::string_view target = "sm_90a";
};

constexpr std::string_view kFixVariables =
    ".shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;"
    " .shared .align 4 .b8 slot[4];";

constexpr LaunchConfig kPair{.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}};
constexpr LaunchConfig kWarpgroup{.block = {128, 1, 1}};

// In each: %r1 the thread, %r2 the tile, %r4 the thread's word of it; %rd1 512 numbers, %rd3 the
// thread's own.
const std::vector<PublicFix> kFixes = {
    // Reduction of a block that is called twice: its buffer is used again.
    {"ReductionIsCalledTwice", FindingKind::kRace, R"(
  setp.eq.u32 %p1, %r6, 0;
  @%p1 st.shared.u32 [%r7], %r1;
  bar.sync 0;
  ld.shared.v2.u32 {%r10, %r11}, [%r2];
  {}
  @%p1 st.shared.u32 [%r7], %r10;
  bar.sync 0;
  ld.shared.v2.u32 {%r10, %r11}, [%r2];
  st.global.u32 [%rd3], %r11;)",
     "", "bar.sync 0;", LaunchConfig{.block = {64, 1, 1}}, "sm_80"},
    // The last stage of a pipeline of cp.async is waited for as the others are.
    {"LastStageIsNotAwaited", FindingKind::kRace, R"(
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r4+256], [%rd3+256], 4;
  cp.async.commit_group;
  cp.async.wait_group 1;
  ld.shared.u32 %r10, [%r4];
  {}
  ld.shared.u32 %r11, [%r4+256];
  add.u32 %r10, %r10, %r11;
  st.global.u32 [%rd3], %r10;)",
     "cp.async.wait_group 1;", "cp.async.wait_group 0;", LaunchConfig{.block = {64, 1, 1}},
     "sm_80"},
    // What others have copied needs a barrier behind the wait.
    {"CopiesOfOthersNeedABarrier", FindingKind::kRace, R"(
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.wait_all;
  {}
  xor.b32 %r8, %r4, 128;
  ld.shared.u32 %r10, [%r8];)",
     "bar.warp.sync -1;", "bar.sync 0;", LaunchConfig{.block = {64, 1, 1}}, "sm_80"},
    // A stencil whose halo is filled on one side alone.
    {"HaloIsNotFilled", FindingKind::kUninitialized, R"(
  ld.global.u32 %r8, [%rd3];
  st.shared.u32 [%r4+4], %r8;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.shared.u32 [tile], %r8;
  {}
  bar.sync 0;
  ld.shared.u32 %r10, [%r4];
  ld.shared.u32 %r11, [%r4+8];
  add.u32 %r10, %r10, %r11;
  st.global.u32 [%rd3], %r10;)",
     "", "@%p1 st.shared.u32 [tile+260], %r8;", LaunchConfig{.block = {64, 1, 1}}, "sm_80"},
    // A softmax that shares its maximum through memory within a warp.
    {"MaximumOfAWarpIsShared", FindingKind::kRace, R"(
  redux.sync.max.u32 %r8, %r1, -1;
  setp.eq.u32 %p1, %r6, 0;
  @%p1 st.shared.u32 [%r7], %r8;
  {}
  ld.shared.u32 %r10, [%r7];
  st.global.u32 [%rd3], %r10;)",
     "", "bar.warp.sync -1;", LaunchConfig{.block = {64, 1, 1}}, "sm_80"},
    // Producers and consumers that count each other differently at a named barrier.
    {"NamedBarrierCountsAll", FindingKind::kDeadlock, R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra TAKES;
  st.shared.u32 [%r4], %r1;
  bar.arrive 1, 64;
  bra DONE;
TAKES:
  bar.sync 1, {};
  ld.shared.u32 %r10, [%r4+-128];
DONE:)",
     "64; bar.sync 2, 64", "64"},
    // An epilogue that stores its tile by the TMA's bulk copy.
    {"TileIsNotFenced", FindingKind::kNoProxyFence, R"(
  st.shared.u32 [%r4], %r1;
  {}
  bar.sync 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 256;
  @%p1 cp.async.bulk.commit_group;
  @%p1 cp.async.bulk.wait_group.read 0;)",
     "", "fence.proxy.async.shared::cta;"},
    // The tile is written again while the copy may still read it.
    {"TileIsUsedAgain", FindingKind::kRace, R"(
  st.shared.u32 [%r4], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 256;
  @%p1 cp.async.bulk.commit_group;
  {}
  bar.sync 0;
  st.shared.u32 [%r4], %r6;
  @%p1 cp.async.bulk.wait_group.read 0;)",
     "", "@%p1 cp.async.bulk.wait_group.read 0;"},
    // Half of the bytes, as if the elements were smaller.
    {"BytesAreCountedInHalves", FindingKind::kDeadlock, R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [full];
READY:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;
  ld.shared.u32 %r10, [%r4];
  st.global.u32 [%rd3], %r10;)",
     "512", "256"},
    // An epilogue warp that writes its rows, and one elected lane that tells the storing warp.
    {"OneLaneTellsOfAllRows", FindingKind::kRace, R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
READY:
  bar.sync 0;
  setp.ge.u32 %p3, %r1, 32;
  @%p3 bra STORES;
  st.shared.u32 [%r4], %r1;
  fence.proxy.async.shared::cta;
  {}
  elect.sync _|%p4, -1;
  @%p4 mbarrier.arrive.shared::cta.b64 _, [full];
  bra DONE;
STORES:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra STORES;
  elect.sync _|%p4, -1;
  @%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 128;
  @%p4 cp.async.bulk.commit_group;
  @%p4 cp.async.bulk.wait_group.read 0;
DONE:)",
     "", "bar.warp.sync -1;"},
    // A block of a cluster that ends while the other one still reads its shared memory.
    {"ClusterEndsTogether", FindingKind::kLifetime, R"(
  st.shared.u32 [%r4], %r1;
  mov.u32 %r8, %cluster_ctarank;
  xor.b32 %r8, %r8, 1;
  mapa.shared::cluster.u32 %r9, %r4, %r8;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ld.shared::cluster.u32 %r10, [%r9];
  {})",
     "", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", kPair},
    // Blocks that arrive at each other, and end without having waited.
    {"RemoteArrivalsAreAwaited", FindingKind::kLifetime, R"(
  mov.u32 %r8, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  xor.b32 %r8, %r8, 1;
  mov.u32 %r9, full;
  mapa.shared::cluster.u32 %r9, %r9, %r8;
  @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];
  {})",
     "", "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [full], 0; @!%p2 bra W;",
     kPair},
    // An attention kernel's warps that deallocate tensor memory while others load from it.
    {"TensorMemoryIsGivenBackLast", FindingKind::kRace, R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
ALLOCATED:
  bar.sync 0;
  ld.shared.u32 %r8, [slot];
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r1};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r8];
  bar.sync 0;
  tcgen05.wait::ld.sync.aligned;
  st.global.u32 [%rd3], %r9;
  {}
  @%p1 bra DONE;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;
DONE:)",
     "", "bar.sync 0;", kWarpgroup, "sm_100a"},
    // A store of registers that a load from tensor memory has not filled yet.
    {"LoadsOfTensorMemoryAreAwaited", FindingKind::kUninitialized, R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra DONE;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
  bar.warp.sync -1;
  ld.shared.u32 %r8, [slot];
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r1};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r8];
  {}
  st.global.u32 [%rd3], %r9;
  tcgen05.wait::ld.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;
DONE:)",
     "", "tcgen05.wait::ld.sync.aligned;", kWarpgroup, "sm_100a"},
};

class PublicFixesTest : public DeviceTest, public ::testing::WithParamInterface<PublicFix> {
 protected:
  std::set<FindingKind> kinds_of(std::string_view part) {
    const PublicFix& fix = GetParam();
    std::string body(R"(
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  shr.u32 %r5, %r1, 5;
  and.b32 %r6, %r1, 31;
  shl.b32 %r7, %r5, 2;
  add.u32 %r7, %r7, %r2;)");
    body += fix.body;
    body.replace(body.find("{}"), 2, part);
    std::string text = kernel(body, kFixVariables);
    text.replace(text.find("sm_90a"), 6, fix.target);
    constexpr std::uint64_t kFixSeeds = 20;
    return kinds_over(kFixSeeds, [&](std::uint64_t seed) {
      return run(text, put(std::vector<std::uint32_t>(512, 1)), fix.config,
                 {.seed = seed, .check_stored_values = true});
    });
  }
};

TEST_P(PublicFixesTest, IsFoundWithoutItAlone) {
  const PublicFix& fix = GetParam();
  EXPECT_EQ(kinds_of(fix.right), std::set<FindingKind>{}) << last_.text();
  EXPECT_EQ(kinds_of(fix.wrong), std::set{fix.kind}) << last_.text();
  EXPECT_EQ(clean_, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, PublicFixesTest, ::testing::ValuesIn(kFixes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace emu
