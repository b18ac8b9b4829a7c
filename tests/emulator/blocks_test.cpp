// Warps, blocks and grids among each other in the emulator: mbarriers, clusters, registers that
// move, grids that overlap, and what goes wrong with them.
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::uint64_t kSeeds = 40;

class BlocksTest : public DeviceTest {
 protected:
  // The kinds of findings of the body over many seeds; it has 256 numbers in memory, all 1.
  std::set<FindingKind> findings_of(std::string_view body, std::string_view variables,
                                    const LaunchConfig& config) {
    return kinds_over(kSeeds, [&](std::uint64_t seed) {
      return run(kernel(body, variables), put(std::vector<std::uint32_t>(256, 1)), config,
                 {.seed = seed});
    });
  }
};

constexpr std::string_view kQueue =
    ".shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b32 cell;";

// Warp 0 gives numbers through one cell of shared memory to warp 1, which adds them up.
std::string queue(std::string_view first_empty_parity, std::string_view arrivals = "32") {
  return fmt::format(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mov.u32 %r2, {};
  mbarrier.init.shared::cta.b64 [full], %r2;
  mbarrier.init.shared::cta.b64 [empty], %r2;
READY:
  bar.sync 0;
  mov.u32 %r3, 0;
  mov.u32 %r8, 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra TAKES;
GIVE:
  and.b32 %r4, %r3, 1;
  xor.b32 %r4, %r4, {};
G:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [empty], %r4;
  @!%p3 bra G;
  mad.lo.s32 %r5, %r3, 3, 1;
  setp.ne.u32 %p6, %r1, 0;
  @%p6 bra GIVEN;
  st.shared.u32 [cell], %r5;
GIVEN:
  mbarrier.arrive.shared::cta.b64 _, [full];
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p4, %r3, 5;
  @%p4 bra GIVE;
  bra DONE;
TAKES:
  and.b32 %r4, %r3, 1;
T:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r4;
  @!%p3 bra T;
  ld.shared.u32 %r5, [cell];
  add.u32 %r8, %r8, %r5;
  mbarrier.arrive.shared::cta.b64 _, [empty];
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p4, %r3, 5;
  @%p4 bra TAKES;
  st.global.u32 [%rd3], %r8;
DONE:)",
                     arrivals, first_empty_parity);
}

TEST_F(BlocksTest, MbarriersPassNumbersOn) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t memory = put(std::vector<std::uint32_t>(64, 1));
    const Report report = run(kernel(queue("1"), kQueue), memory, 64, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(get<std::uint32_t>(memory, 64)[40], 1U + 4 + 7 + 10 + 13);
  }
}

TEST_F(BlocksTest, WrongPhasesAndArrivalsAreFound) {
  EXPECT_EQ(findings_of(queue("0"), kQueue, {.block = {64, 1, 1}}),
            std::set{FindingKind::kDeadlock});
  EXPECT_NE(last_.text().find("phase 0, 32 of 32 arrivals and 0 bytes awaited"), std::string::npos)
      << last_.text();
  EXPECT_EQ(findings_of(queue("1", "33"), kQueue, {.block = {64, 1, 1}}),
            std::set{FindingKind::kDeadlock});
}

// Warps 0 and 1 wait for each other in turns, and warp 2 for warp 0, with nothing that waits for
// it.
TEST_F(BlocksTest, AWarpThatNobodyWaitsForMissesPhases) {
  const std::string ptx = kernel(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [ping], 1;
  mbarrier.init.shared::cta.b64 [pong], 1;
READY:
  bar.sync 0;
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.u32 %p2, %r1, 32;
  setp.lt.u32 %p3, %r1, 32;
  mov.u32 %r2, 0;
LAP:
  and.b32 %r3, %r2, 1;
  @!%p3 bra PING;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [ping];
PONG:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [pong], %r3;
  @!%p4 bra PONG;
  bra NEXT;
PING:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [ping], %r3;
  @!%p4 bra PING;
  @%p2 mbarrier.arrive.shared::cta.b64 _, [pong];
NEXT:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p4, %r2, 8;
  @%p4 bra LAP;)",
                                 ".shared .align 8 .b64 ping; .shared .align 8 .b64 pong;");
  const std::uint64_t memory = put(std::vector<std::uint32_t>(96));
  bool is_missed = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Report late = run(ptx, memory, 96, {.seed = seed});
    is_missed |= !late.is_clean();
    const Report prompt = run(ptx, memory, 96, {.seed = seed, .check_late_warps = false});
    EXPECT_TRUE(prompt.is_clean()) << prompt.findings.front().text();
  }
  EXPECT_TRUE(is_missed);
}

TEST_F(BlocksTest, MisusedMbarriersAreFound) {
  constexpr std::string_view kOne = ".shared .align 8 .b64 full;";
  const LaunchConfig lane{.block = {1, 1, 1}};
  EXPECT_EQ(findings_of("mbarrier.arrive.shared::cta.b64 _, [full];", kOne, lane),
            std::set{FindingKind::kBarrierMisuse});
  EXPECT_EQ(findings_of("mbarrier.init.shared::cta.b64 [full], 0;", kOne, lane),
            std::set{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of("mbarrier.init.shared::cta.b64 [full], 1;"
                        "mbarrier.init.shared::cta.b64 [full], 1;",
                        kOne, lane),
            std::set{FindingKind::kBarrierMisuse});
  EXPECT_EQ(findings_of("mbarrier.init.shared::cta.b64 [full], 1; st.shared.u32 [full+4], 7;"
                        "mbarrier.arrive.shared::cta.b64 _, [full];",
                        kOne, lane),
            std::set{FindingKind::kBarrierMisuse});
  EXPECT_EQ(findings_of("mbarrier.init.shared::cta.b64 [full], 1;"
                        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 1048576;",
                        kOne, lane),
            std::set{FindingKind::kBarrierMisuse});
  EXPECT_EQ(findings_of("mbarrier.init.shared::cta.b64 [full], 1;"
                        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;"
                        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0; @!%p1 bra W;",
                        kOne, lane),
            std::set{FindingKind::kDeadlock});
  EXPECT_NE(last_.text().find("64 bytes awaited"), std::string::npos) << last_.text();
}

// Each block writes its number into the next one's shared memory and reads what it was given.
std::string ring(std::string_view last) {
  return fmt::format(R"(
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, %cluster_nctarank;
  add.u32 %r4, %r2, 1;
  rem.u32 %r4, %r4, %r3;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.acquire.aligned;
  add.u32 %r7, %r2, 100;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 st.shared::cluster.u32 [%r6], %r7;
{}
  ld.shared.u32 %r8, [cell];
  mov.u32 %r9, %ctaid.x;
  mul.wide.u32 %rd4, %r9, 4;
  add.s64 %rd5, %rd1, %rd4;
  @!%p1 st.global.u32 [%rd5], %r8;)",
                     last);
}

constexpr std::string_view kCell = ".shared .align 4 .b32 cell;";
constexpr std::string_view kMeet =
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

TEST_F(BlocksTest, BlocksReachEachOthersSharedMemory) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t memory = put(std::vector<std::uint32_t>(8, 1));
    const Report report =
        run(kernel(ring(kMeet), kCell), memory,
            {.grid = {8, 1, 1}, .block = {64, 1, 1}, .cluster = {4, 1, 1}}, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    EXPECT_EQ(get<std::uint32_t>(memory, 8),
              (std::vector<std::uint32_t>{103, 100, 101, 102, 103, 100, 101, 102}));
  }
}

TEST_F(BlocksTest, ABlockThatEndsWhileOthersNeedItIsFound) {
  const LaunchConfig two{.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}};
  constexpr std::string_view kLeaves = R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 ret;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, 0;
  st.shared::cluster.u32 [%r6], %r2;)";
  EXPECT_TRUE(findings_of(kLeaves, kCell, two).contains(FindingKind::kLifetime));
  EXPECT_NE(last_.text().find("block (0,0,0), which has ended"), std::string::npos) << last_.text();
  EXPECT_EQ(findings_of("mov.u32 %r5, cell; mapa.shared::cluster.u32 %r6, %r5, 2;", kCell, two),
            std::set{FindingKind::kIllegalOperand});
  EXPECT_EQ(findings_of("mov.u32 %r5, cell; mapa.shared::cluster.u32 %r6, %r5, 1;"
                        "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0;"
                        "@%p1 st.shared.u32 [%r6], %r1;",
                        kCell, two),
            std::set{FindingKind::kOutOfBounds});
  EXPECT_EQ(findings_of("barrier.cluster.wait.acquire.aligned;", kCell, two),
            std::set{FindingKind::kBarrierMisuse});
  EXPECT_EQ(findings_of("mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0;"
                        "@%p1 bra ON; bar.sync 1, 64; ON:"
                        "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;",
                        kCell, two),
            std::set{FindingKind::kDeadlock});
}

// 384 threads have 168 registers each; warpgroup 0 gives back, the others take.
std::string registers(std::string_view given, std::string_view taken) {
  return fmt::format(R"(
  setp.ge.u32 %p1, %r1, 128;
  @%p1 bra TAKES;
  setmaxnreg.dec.sync.aligned.u32 {};
  bra DONE;
TAKES:
  setmaxnreg.inc.sync.aligned.u32 {};
DONE:)",
                     given, taken);
}

TEST_F(BlocksTest, RegistersMoveBetweenWarps) {
  const LaunchConfig config{.block = {384, 1, 1}};
  EXPECT_EQ(findings_of(registers("24", "240"), "", config), std::set<FindingKind>{});
  EXPECT_EQ(findings_of(registers("32", "240"), "", config), std::set{FindingKind::kDeadlock});
  EXPECT_NE(last_.text().find("waits for 240 registers"), std::string::npos) << last_.text();
  EXPECT_EQ(findings_of(registers("176", "240"), "", config),
            std::set{FindingKind::kIllegalOperand});
  // 256 threads would have 256 each; ptxas gives them as many as some ask for.
  const LaunchConfig fewer{.block = {256, 1, 1}};
  EXPECT_EQ(findings_of(registers("40", "232"), "", fewer), std::set<FindingKind>{});
  EXPECT_EQ(findings_of(registers("240", "232"), "", fewer),
            std::set{FindingKind::kIllegalOperand});
  // Registers are allotted in units of 8, so that 255 are 256.
  EXPECT_EQ(findings_of("setmaxnreg.inc.sync.aligned.u32 256;", "", fewer),
            std::set<FindingKind>{});
}

TEST_F(BlocksTest, BytesCanBeCountedWithoutACopy) {
  const auto body = [](int bytes) {
    return fmt::format(
        "mbarrier.init.shared::cta.b64 [full], 1;"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;"
        "mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [full], {};"
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0; @!%p1 bra W;",
        bytes);
  };
  constexpr std::string_view kOne = ".shared .align 8 .b64 full;";
  const LaunchConfig lane{.block = {1, 1, 1}};
  EXPECT_EQ(findings_of(body(64), kOne, lane), std::set<FindingKind>{});
  EXPECT_EQ(findings_of(body(60), kOne, lane), std::set{FindingKind::kDeadlock});
  EXPECT_NE(last_.text().find("4 bytes awaited"), std::string::npos) << last_.text();
}

// The first grid writes 7 late; the second copies what it finds.
TEST_F(BlocksTest, ADependentGridStartsEarlyAndWaits) {
  const auto first = [](std::string_view release) {
    return kernel(fmt::format(R"(
  {}
  mov.u32 %r2, 0;
L:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 300;
  @%p1 bra L;
  mov.u32 %r3, 7;
  st.global.u32 [%rd3], %r3;)",
                              release));
  };
  const auto second = [](std::string_view wait) {
    return kernel(
        fmt::format("{} ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3+1024], %r2;", wait));
  };
  constexpr std::string_view kRelease = "griddepcontrol.launch_dependents;";
  constexpr std::string_view kWait = "griddepcontrol.wait;";
  const auto seen = [&](std::string_view release, std::string_view wait, bool is_dependent = true) {
    std::set<std::uint32_t> values;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(512, 1));
      const auto bytes = std::bit_cast<std::array<std::byte, 8>>(memory);
      const std::vector<std::byte> parameters(bytes.begin(), bytes.end());
      const LaunchConfig config{.grid = {2, 1, 1}, .block = {64, 1, 1}};
      LaunchConfig dependent = config;
      dependent.is_dependent = is_dependent;
      const std::array launches = {
          Launch{device_.load(first(release)).front(), config, parameters},
          Launch{device_.load(second(wait)).front(), dependent, parameters}};
      // Both of its blocks write there, the same.
      const Report report = device_.run(launches, {.seed = seed, .check_races = false});
      for (std::size_t i = 256; i < 320; ++i) {
        values.insert(get<std::uint32_t>(memory, 512)[i]);
      }
    }
    return values;
  };
  EXPECT_EQ(seen(kRelease, kWait), (std::set<std::uint32_t>{7}));
  EXPECT_EQ(seen("", ""), (std::set<std::uint32_t>{7}));
  EXPECT_TRUE(seen(kRelease, "").contains(1));
  EXPECT_EQ(seen(kRelease, "", false), (std::set<std::uint32_t>{7}));
}

TEST_F(BlocksTest, LaunchesThatAreNotAllowedAreRefused) {
  const std::string ptx = kernel("");
  EXPECT_THROW(run(ptx, 0, {.grid = {3, 1, 1}, .cluster = {2, 1, 1}}), std::runtime_error);
  EXPECT_THROW(run(ptx, 0, {.grid = {16, 1, 1}, .cluster = {16, 1, 1}}), std::runtime_error);
  EXPECT_THROW(run(ptx, 0, {.grid = {0, 1, 1}}), std::runtime_error);
}

// Each policy is chosen by some seed, and each can be asked for.
TEST_F(BlocksTest, SeedsChooseAmongThePolicies) {
  std::set<Policy> chosen;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    chosen.insert(run(kernel(""), 0, LaunchConfig{}, {.seed = seed}).policy);
  }
  EXPECT_EQ(chosen, (std::set{Policy::kUniform, Policy::kPriorities, Policy::kEager, Policy::kLazy,
                              Policy::kStarve}));
  EXPECT_EQ(run(kernel(""), 0, LaunchConfig{}, {.policy = Policy::kLazy}).policy, Policy::kLazy);
}

// Where blocks are clusters, a launch counts clusters and need not repeat the kernel's sizes.
TEST_F(BlocksTest, GridsOfClusters) {
  const auto with = [](std::string_view directives) {
    std::string text = kernel(R"(
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd5, %rd1, %rd4;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %clusterid.x;
  mad.lo.u32 %r5, %r3, 100, %r4;
  setp.eq.u32 %p1, %r1, 31;
  @%p1 st.global.u32 [%rd5], %r5;)");
    const std::string_view end = "memory)";
    return text.insert(text.find(end) + end.size(), directives);
  };
  const std::string text = with(".blocksareclusters .reqntid 32 .reqnctapercluster 2");
  const LaunchConfig three{.grid = {3, 1, 1}};
  const std::uint64_t address = put(std::vector<std::uint32_t>(6));
  EXPECT_TRUE(run(text, address, three).is_clean());
  EXPECT_EQ(get<std::uint32_t>(address, 6),
            (std::vector<std::uint32_t>{600, 600, 601, 601, 602, 602}));

  EXPECT_THROW(run(text, address, {.block = {64, 1, 1}}), std::runtime_error);
  EXPECT_THROW(run(text, address, {.grid = {0xFFFFFFFF, 1, 1}}), std::runtime_error);
  EXPECT_THROW(run(with(".blocksareclusters .reqntid 32"), address, three), std::runtime_error);
}

}  // namespace
}  // namespace emu
