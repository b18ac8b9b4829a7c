// Kernels that race, and the same kernels without their mistake, in the emulator.
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::uint64_t kRaceSeeds = 25;
const std::set<FindingKind> kNoFindings;
const std::set<FindingKind> kRaces = {FindingKind::kRace};

class RaceKernelsTest : public DeviceTest {
 protected:
  // The kinds of findings over many seeds. A race is found on every schedule, or none at all.
  std::set<FindingKind> findings_of(std::string_view body, const LaunchConfig& config,
                                    std::string_view variables = "") {
    const std::set<FindingKind> kinds = kinds_over(kRaceSeeds, [&](std::uint64_t seed) {
      return run(kernel(body, variables), put(std::vector<std::uint32_t>(1024, 1)), config,
                 {.seed = seed});
    });
    EXPECT_TRUE(clean_ == 0 || clean_ == kRaceSeeds)
        << clean_ << " of " << kRaceSeeds << " seeds are clean";
    return kinds;
  }
  std::set<FindingKind> findings_of(std::string_view body, std::uint32_t threads,
                                    std::string_view variables = "") {
    return findings_of(body, LaunchConfig{.block = {threads, 1, 1}}, variables);
  }
};

constexpr std::string_view kStage = ".shared .align 16 .b8 buffer[2048];";

std::string with(std::string text, const std::vector<std::string_view>& parts) {
  for (const std::string_view part : parts) {
    text.replace(text.find("{}"), 2, part);
  }
  return text;
}

// %r4: the thread's own word of the buffer; %r5: one of the next warp's.
constexpr std::string_view kPlaces = R"(
  mov.u32 %r2, buffer;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  mov.u32 %r6, %ntid.x;
  add.u32 %r7, %r1, 32;
  rem.u32 %r7, %r7, %r6;
  shl.b32 %r7, %r7, 2;
  add.u32 %r5, %r2, %r7;
)";

std::string shared_kernel(std::string_view body) {
  return std::string(kPlaces) + std::string(body);
}

TEST_F(RaceKernelsTest, AMissingBarrierIsFoundOnEverySchedule) {
  const std::string text = shared_kernel(R"(
  st.shared.u32 [%r4], %r1;
  {}
  ld.shared.u32 %r8, [%r5];
  st.global.u32 [%rd3], %r8;)");
  EXPECT_EQ(findings_of(with(text, {""}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"bar.sync 0;"}), 128, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"bar.warp.sync -1;"}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"bar.warp.sync -1;"}), 32, kStage), kNoFindings);
}

TEST_F(RaceKernelsTest, AFindingNamesBothAccesses) {
  constexpr std::string_view kBody = R"(
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra READS;
  st.shared.u32 [buffer+64], %r1;
READS:
  ld.shared.u32 %r8, [buffer+64];)";
  const Report report = run(kernel(with(std::string(kBody), {}), kStage), put(std::vector{0}), 64,
                            {.seed = 3, .policy = Policy::kUniform});
  ASSERT_EQ(report.findings.size(), 1U);
  // 32 lanes write 32 values to one place.
  EXPECT_EQ(report.findings[0].kind, FindingKind::kRace);
  EXPECT_EQ(report.findings[0].lanes, 0x7FFFFFFFU);
  bool has_read_first = false;
  bool has_written_first = false;
  for (std::uint64_t seed = 0; seed < kRaceSeeds; ++seed) {
    const std::string body = R"(
  setp.ge.u32 %p1, %r1, 32;
  mov.u32 %r3, 7;
  @%p1 bra READS;
  st.shared.u32 [buffer+64], %r3;
READS:
  @%p1 ld.shared.u32 %r8, [buffer+64];)";
    const Report found = run(kernel(body, kStage), put(std::vector{0}), 64, {.seed = seed});
    ASSERT_EQ(found.findings.size(), 1U);
    const Finding& finding = found.findings[0];
    ASSERT_TRUE(finding.other.has_value());
    const EarlierAccess& other = finding.other.value_or(EarlierAccess{});
    EXPECT_EQ(other.kernel, "test");
    EXPECT_EQ(finding.line + other.line, 20 + 22);
    EXPECT_EQ(finding.warp + other.warp, 1);
    EXPECT_EQ(finding.instruction == "ld.shared.u32", finding.warp == 1);
    EXPECT_EQ(other.instruction == "ld.shared.u32", other.warp == 1);
    (finding.warp == 0 ? has_read_first : has_written_first) = true;
    EXPECT_NE(
        finding.text().find(finding.warp == 0
                                ? "writes shared memory at 0x440, which another access has read"
                                : "reads shared memory at 0x440, which another access has written"),
        std::string::npos)
        << finding.text();
    EXPECT_NE(finding.text().find("; earlier access: test: "), std::string::npos);
  }
  EXPECT_TRUE(has_read_first && has_written_first);
}

TEST_F(RaceKernelsTest, RacesAreNotLookedForUnlessAsked) {
  const std::string text = shared_kernel("st.shared.u32 [%r4], %r1; ld.shared.u32 %r8, [%r5];");
  EXPECT_TRUE(
      run(kernel(text, kStage), put(std::vector{0}), 64, {.check_races = false}).is_clean());
  EXPECT_FALSE(run(kernel(text, kStage), put(std::vector{0}), 64).is_clean());
}

TEST_F(RaceKernelsTest, ALoopWritesAgainOnlyAfterAllHaveRead) {
  const std::string text = shared_kernel(R"(
  mov.u32 %r10, 0;
AGAIN:
  st.shared.u32 [%r4], %r10;
  {}
  ld.shared.u32 %r8, [%r5];
  {}
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p1, %r10, 3;
  @%p1 bra AGAIN;)");
  EXPECT_EQ(findings_of(with(text, {"bar.sync 0;", "bar.sync 0;"}), 128, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"bar.sync 0;", ""}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"", "bar.sync 0;"}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"bar.sync 3;", "barrier.sync.aligned 5;"}), 128, kStage),
            kNoFindings);
}

// Warps 0 and 1 meet at a barrier of their own; warp 2 reads what they have written, too.
TEST_F(RaceKernelsTest, NamedBarriersOrderThoseWhoComeThere) {
  const std::string text = shared_kernel(R"(
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bra {};
  st.shared.u32 [%r4], %r1;
  bar.sync 1, 64;
  xor.b32 %r9, %r3, 128;
  add.u32 %r9, %r9, %r2;
  ld.shared.u32 %r8, [%r9];
  {}
THIRD:
  @!%p1 bra DONE;
  {}
  ld.shared.u32 %r8, [buffer+128];
DONE:)");
  EXPECT_EQ(findings_of(with(text, {"DONE", "", ""}), 96, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"THIRD", "", ""}), 96, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"THIRD", "bar.arrive 2, 96;", "bar.sync 2, 96;"}), 96, kStage),
            kNoFindings);
  // An arrival takes nothing away.
  EXPECT_EQ(findings_of(with(text, {"THIRD", "bar.sync 2, 96;", "bar.arrive 2, 96;"}), 96, kStage),
            kRaces);
}

TEST_F(RaceKernelsTest, BlocksHaveNoOrderInGlobalMemory) {
  const LaunchConfig two{.grid = {2, 1, 1}, .block = {64, 1, 1}};
  EXPECT_EQ(findings_of("st.global.u32 [%rd3], %r1;", two), kRaces);
  EXPECT_EQ(findings_of("ld.global.u32 %r2, [%rd3];", two), kNoFindings);
  const std::string text = R"(
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 64, %r1;
  mul.wide.u32 %rd4, %r3, {};
  add.s64 %rd5, %rd1, %rd4;
  {};
  ld.global.u32 %r4, [%rd1+512];)";
  EXPECT_EQ(findings_of(with(text, {"4", "st.global.u32 [%rd5], %r3"}), two), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"8", "st.global.u32 [%rd5], %r3"}), two), kRaces);
  // Two halves of a word.
  EXPECT_EQ(
      findings_of("mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd4, %r2, 2; add.s64 %rd5, %rd3, %rd4;"
                  "cvt.u16.u32 %rs1, %r2; st.global.u16 [%rd5], %rs1;",
                  two),
      kNoFindings);
  EXPECT_EQ(findings_of("st.global.u32 [%rd3], %r1; bar.sync 0; ld.global.u32 %r2, [%rd1+8];",
                        LaunchConfig{.block = {64, 1, 1}}),
            kNoFindings);
  EXPECT_EQ(findings_of("st.global.u32 [%rd3], %r1; ld.global.u32 %r2, [%rd1+8];",
                        LaunchConfig{.block = {64, 1, 1}}),
            kRaces);
}

TEST_F(RaceKernelsTest, CopiesAreThereForAllAfterAWaitAndABarrier) {
  const std::string text = shared_kernel(R"(
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.commit_group;
  {}
  {}
  ld.shared.u32 %r8, [%r5];
  {}
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.wait_all;)");
  constexpr std::string_view kWait = "cp.async.wait_group 0;";
  constexpr std::string_view kBarrier = "bar.sync 0;";
  EXPECT_EQ(findings_of(with(text, {kWait, kBarrier, kBarrier}), 128, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"cp.async.wait_all;", kBarrier, kBarrier}), 128, kStage),
            kNoFindings);
  EXPECT_EQ(findings_of(with(text, {kWait, "", kBarrier}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {kBarrier, kWait, kBarrier}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {"", kBarrier, kBarrier}), 128, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {kWait, kBarrier, ""}), 128, kStage), kRaces);
  // What it reads is read until the wait.
  const std::string source = shared_kernel(R"(
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.commit_group;
  {}
  st.global.u32 [%rd3], %r1;)");
  EXPECT_EQ(findings_of(with(source, {kWait}), 64, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(source, {"cp.async.wait_all;"}), 64, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(source, {"cp.async.wait_group 1;"}), 64, kStage), kRaces);
  // Groups of other lanes do not tell of a copy that is in none.
  const std::string open = shared_kernel(R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 cp.async.ca.shared.global [%r4], [%rd3], 4;
  @!%p1 cp.async.commit_group;
  @!%p1 cp.async.wait_group 0;
  {}
  st.global.u32 [%rd3], %r1;)");
  EXPECT_EQ(findings_of(with(open, {"cp.async.wait_all;"}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(open, {""}), 32, kStage), kRaces);
}

TEST_F(RaceKernelsTest, MatricesAreReadAfterTheyAreWritten) {
  const std::string text = shared_kernel(R"(
  shl.b32 %r10, %r1, 4;
  add.u32 %r10, %r10, %r2;
  xor.b32 %r11, %r10, 512;
  stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {%r1, %r1, %r1, %r1};
  {}
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r11];
  {}
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r1};)");
  constexpr std::string_view kBarrier = "bar.sync 0;";
  EXPECT_EQ(findings_of(with(text, {kBarrier, kBarrier}), 64, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"", kBarrier}), 64, kStage), kRaces);
  EXPECT_EQ(findings_of(with(text, {kBarrier, ""}), 64, kStage), kRaces);
}

TEST_F(RaceKernelsTest, LanesThatWriteTheSamePlaceWriteTheSame) {
  const std::string text = "shr.u32 %r9, %r1, {}; st.shared.u32 [buffer+8], %r9;";
  EXPECT_EQ(findings_of(with(text, {"5"}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"4"}), 32, kStage), kRaces);
  // In any order of the lanes, and where they overlap in part.
  const std::string places = shared_kernel(R"(
  mul.lo.u32 %r9, %r1, 7;
  and.b32 %r9, %r9, {};
  shl.b32 %r9, %r9, 2;
  add.u32 %r9, %r9, %r2;
  st.shared.u32 [%r9], %r1;)");
  EXPECT_EQ(findings_of(with(places, {"31"}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(places, {"15"}), 32, kStage), kRaces);
}

TEST_F(RaceKernelsTest, MatrixRowsAtTheSamePlaceHaveTheSameValues) {
  // Rows 0 to 3 and 4 to 7 are at the same places, as where lanes 16 to 31 have what 0 to 15 have.
  const std::string text = shared_kernel(R"(
  and.b32 %r9, %r1, 3;
  shl.b32 %r9, %r9, 4;
  add.u32 %r9, %r9, %r2;
  and.b32 %r10, %r1, {};
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r9], {%r10};)");
  EXPECT_EQ(findings_of(with(text, {"15"}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"31"}), 32, kStage), kRaces);
}

TEST_F(RaceKernelsTest, LanesThatArePartedRace) {
  const std::string text = R"(
  mov.u32 %r2, 5;
  setp.lt.u32 %p1, %r1, 7;
  @%p1 bra FEW;
  st.shared.u32 [buffer], %r2;
  bra MET;
FEW:
  {}
MET:
  {}
  ld.shared.u32 %r4, [buffer+4];
  st.shared.u32 [buffer], %r2;)";
  EXPECT_EQ(findings_of(with(text, {"", "st.shared.u32 [buffer+4], %r2;"}), 32, kStage),
            kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"st.shared.u32 [buffer+4], %r2;", ""}), 32, kStage),
            kNoFindings);
  EXPECT_EQ(
      findings_of(with(text, {"st.shared.u32 [buffer], %r2;", "st.shared.u32 [buffer+4], %r2;"}),
                  32, kStage),
      kRaces);
}

// Lanes that tell each other something through memory need a barrier of the warp between.
TEST_F(RaceKernelsTest, LanesNeedABarrierBetweenThem) {
  constexpr std::string_view kSync = "bar.warp.sync -1;";
  const std::string turned = shared_kernel(R"(
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  xor.b32 %r10, %r9, {};
  st.shared.u32 [%r9], %r1;
  {}
  ld.shared.u32 %r11, [%r10];
  {}
  st.shared.u32 [%r10], %r11;)");
  // Each its own place: nothing is told.
  EXPECT_EQ(findings_of(with(turned, {"0", "", ""}), 32, kStage), kNoFindings);
  // A neighbour's: what it wrote is read, and then written over.
  EXPECT_EQ(findings_of(with(turned, {"4", kSync, ""}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(turned, {"4", "", ""}), 32, kStage), kRaces);
  EXPECT_EQ(
      findings_of(with(turned, {"4", "shfl.sync.bfly.b32 %r12, %r1, 1, 31, -1;", ""}), 32, kStage),
      kRaces);
  const std::string over = shared_kernel(R"(
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  xor.b32 %r10, %r9, 8;
  ld.shared.u32 %r11, [%r9];
  {}
  st.shared.u32 [%r10], %r1;)");
  EXPECT_EQ(findings_of(with(over, {kSync}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(over, {"bar.sync 0;"}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(over, {""}), 32, kStage), kRaces);
  // An mbarrier tells what lanes have said there, and no more.
  const std::string told = shared_kernel(R"(
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  xor.b32 %r10, %r9, 4;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [done], {};
READY:
  bar.sync 0;
  {}
  st.shared.u32 [%r9], %r1;
  {}
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [done], 0;
  @!%p2 bra WAIT;
  ld.shared.u32 %r11, [%r10];)");
  constexpr std::string_view kArrive = "mbarrier.arrive.shared::cta.b64 _, [done];";
  const std::string with_done = std::string(kStage) + ".shared .align 8 .b64 done;";
  EXPECT_EQ(findings_of(with(told, {"32", "", kArrive}), 32, with_done), kNoFindings);
  EXPECT_EQ(findings_of(with(told, {"32", kArrive, ""}), 32, with_done), kRaces);
  // A copy that a lane has waited for is that lane's.
  const std::string copied = shared_kernel(R"(
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  xor.b32 %r10, %r9, 4;
  cvt.u64.u32 %rd9, %r9;
  cp.async.ca.shared.global [%r9], [%rd1], 4;
  cp.async.wait_all;
  {}
  ld.shared.u32 %r11, [%r10];)");
  EXPECT_EQ(findings_of(with(copied, {kSync}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(copied, {""}), 32, kStage), kRaces);
  // It may not write over what another lane has read or written.
  const std::string copied_over = shared_kernel(R"(
  shl.b32 %r9, %r1, 2;
  add.u32 %r9, %r9, %r2;
  xor.b32 %r10, %r9, {};
  {}
  {}
  cp.async.ca.shared.global [%r9], [%rd1], 4;
  cp.async.wait_all;)");
  for (const std::string_view access :
       {"ld.shared.u32 %r11, [%r10];", "st.shared.u32 [%r10], 1;"}) {
    EXPECT_EQ(findings_of(with(copied_over, {"4", access, kSync}), 32, kStage), kNoFindings);
    EXPECT_EQ(findings_of(with(copied_over, {"0", access, ""}), 32, kStage), kNoFindings);
    EXPECT_EQ(findings_of(with(copied_over, {"4", access, ""}), 32, kStage), kRaces);
  }
}

// Lanes store to matrices, each row of which several lanes write.
TEST_F(RaceKernelsTest, LanesNeedABarrierBeforeMatricesAreStored) {
  const std::string text = shared_kernel(R"(
  shl.b32 %r9, %r1, {};
  add.u32 %r9, %r9, %r2;
  shl.b32 %r10, %r1, 4;
  add.u32 %r10, %r10, %r2;
  st.shared.u32 [%r9], %r1;
  {}
  stmatrix.sync.aligned.m8n8.x1{}.shared.b16 [%r10], {%r1};)");
  constexpr std::string_view kSync = "bar.warp.sync -1;";
  for (const std::string_view shape : {"", ".trans"}) {
    EXPECT_EQ(findings_of(with(text, {"4", kSync, shape}), 32, kStage), kNoFindings);
    EXPECT_EQ(findings_of(with(text, {"4", "", shape}), 32, kStage), kRaces);
  }
  // Without .trans each lane writes the words of its own.
  EXPECT_EQ(findings_of(with(text, {"2", "", ""}), 32, kStage), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {"2", "", ".trans"}), 32, kStage), kRaces);
}

constexpr std::string_view kMailbox =
    ".shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b32 cell;";

// Warp 0 gives numbers through one cell of shared memory to warp 1.
std::string mailbox(const std::vector<std::string_view>& parts) {
  return with(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
  mbarrier.init.shared::cta.b64 [empty], 32;
READY:
  {}
  mov.u32 %r3, 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra TAKES;
  @%p1 bra DONE;
GIVE:
  and.b32 %r4, %r3, 1;
  xor.b32 %r4, %r4, 1;
G:
  mbarrier.try_wait.parity{}.shared::cta.b64 %p3, [empty], %r4;
  @!%p3 bra G;
  {}
  st.shared.u32 [cell], %r3;
  mbarrier.arrive{}.shared::cta.b64 _, [full];
  {}
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
  mbarrier.arrive.shared::cta.b64 _, [empty];
  {}
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p4, %r3, 5;
  @%p4 bra TAKES;
DONE:)",
              parts);
}

TEST_F(RaceKernelsTest, MbarriersOrderThoseWhoArriveAndWait) {
  constexpr std::string_view kBarrier = "bar.sync 0;";
  EXPECT_EQ(findings_of(mailbox({kBarrier, "", "", "", "", ""}), 64, kMailbox), kNoFindings);
  EXPECT_EQ(
      findings_of(mailbox({kBarrier, ".acquire.cta", "", ".release.cta", "", ""}), 64, kMailbox),
      kNoFindings);
  EXPECT_EQ(findings_of(mailbox({kBarrier, ".relaxed.cta", "", "", "", ""}), 64, kMailbox), kRaces);
  EXPECT_EQ(findings_of(mailbox({kBarrier, "", "", ".relaxed.cta", "", ""}), 64, kMailbox), kRaces);
  // Before the arrival, or after it.
  EXPECT_EQ(
      findings_of(mailbox({kBarrier, "", "st.shared.u32 [cell], %r3;", "", "", ""}), 64, kMailbox),
      kNoFindings);
  EXPECT_EQ(
      findings_of(mailbox({kBarrier, "", "", "", "st.shared.u32 [cell], %r3;", ""}), 64, kMailbox),
      kRaces);
  EXPECT_EQ(
      findings_of(mailbox({kBarrier, "", "", "", "", "ld.shared.u32 %r5, [cell];"}), 64, kMailbox),
      kRaces);
}

TEST_F(RaceKernelsTest, MbarriersBeginBeforeTheyAreUsed) {
  const std::string text = R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 2;
  {}
  // Long enough that the first has begun it, on most schedules.
  mov.u32 %r2, 0;
L:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 2000;
  @%p2 bra L;
  setp.eq.u32 %p3, %r1, 32;
  @%p3 mbarrier.arrive.shared::cta.b64 _, [full];)";
  EXPECT_EQ(findings_of(with(text, {"bar.sync 0;"}), 64, kMailbox), kNoFindings);
  const auto found = run(kernel(with(text, {""}), kMailbox), put(std::vector{0}), 64,
                         {.policy = Policy::kUniform});
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].kind, FindingKind::kRace);
}

// Each block writes into the next one's shared memory and reads what it was given.
TEST_F(RaceKernelsTest, BlocksOfAClusterRaceInSharedMemory) {
  const std::string text = R"(
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r4, %r2, 1;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.shared::cluster.u32 [%r6], %r2;
  {}
  @%p1 ld.shared.u32 %r8, [cell];
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;)";
  const LaunchConfig two{.grid = {4, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}};
  const auto meet = [](std::string_view how) {
    return "barrier.cluster.arrive" + std::string(how) + ".aligned; barrier.cluster.wait.aligned;";
  };
  EXPECT_EQ(findings_of(with(text, {meet("")}), two, kMailbox), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {meet(".release")}), two, kMailbox), kNoFindings);
  EXPECT_EQ(findings_of(with(text, {meet(".relaxed")}), two, kMailbox), kRaces);
  EXPECT_TRUE(last_.other.has_value());
  EXPECT_EQ(last_.other.value_or(EarlierAccess{}).block[0] ^ last_.block[0], 1U);
}

TEST_F(RaceKernelsTest, GridsThatOverlapRaceUnlessTheyWait) {
  const auto found = [&](std::string_view first, std::string_view second, bool is_dependent) {
    return kinds_over(kRaceSeeds, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(64, 1));
      const auto bytes = std::bit_cast<std::array<std::byte, 8>>(memory);
      const std::vector<std::byte> parameters(bytes.begin(), bytes.end());
      LaunchConfig config{.block = {64, 1, 1}};
      const Launch one{device_.load(kernel(first)).front(), config, parameters};
      config.is_dependent = is_dependent;
      const Launch other{device_.load(kernel(second)).front(), config, parameters};
      return device_.run(std::array{one, other}, {.seed = seed});
    });
  };
  constexpr std::string_view kWrites =
      "griddepcontrol.launch_dependents; st.global.u32 [%rd3], %r1;";
  constexpr std::string_view kReads = "ld.global.u32 %r2, [%rd3];";
  const std::string waits = "griddepcontrol.wait; ";
  const std::string with_nc = "ld.global.nc.u32 %r2, [%rd3];";
  EXPECT_TRUE(found(kWrites, kReads, true).contains(FindingKind::kRace));
  EXPECT_EQ(found(kWrites, waits + std::string(kReads), true), kNoFindings);
  EXPECT_EQ(found(kWrites, waits + "st.global.u32 [%rd3], %r1;", true), kNoFindings);
  EXPECT_EQ(found(kWrites, kReads, false), kNoFindings);
  EXPECT_EQ(found(kWrites, with_nc, false), kNoFindings);
  // It may be read from a cache that was filled before.
  EXPECT_TRUE(found(kWrites, waits + with_nc, true).contains(FindingKind::kRace));
  EXPECT_EQ(found("st.global.u32 [%rd3], %r1; ld.global.nc.u32 %r2, [%rd3];", kReads, false),
            kRaces);
}

}  // namespace
}  // namespace emu
