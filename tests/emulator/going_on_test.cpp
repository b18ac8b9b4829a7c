// Runs that go on behind findings, findings that are left out, and what hardware lets pass.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::string_view kWords = ".shared .align 16 .b8 words[1024];";

// Thread i writes word i and reads word 127 - i, twice: two races on two lines.
constexpr std::string_view kTwoRaces = R"(
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  sub.u32 %r5, 508, %r3;
  add.u32 %r5, %r5, %r2;
  st.shared.u32 [%r4], %r1;
  ld.shared.u32 %r6, [%r5];
  bar.sync 0;
  st.shared.u32 [%r4+512], %r1;
  ld.shared.u32 %r7, [%r5+512];
  bar.sync 0;
  mov.u32 %r8, 7;
  st.global.u32 [%rd3], %r8;)";

class GoingOnTest : public DeviceTest {
 protected:
  Report report_of(std::string_view body, const RunOptions& options, std::uint32_t threads = 128) {
    address_ = put(std::vector<std::uint32_t>(128, 1));
    return run(kernel(body, kWords), address_, threads, options);
  }
  std::uint64_t address_ = 0;
};

TEST_F(GoingOnTest, RunsGoOnBehindRaces) {
  const Report first = report_of(kTwoRaces, {});
  ASSERT_EQ(first.findings.size(), 1U);
  EXPECT_FALSE(first.has_ended);
  EXPECT_EQ(first.findings[0].count, 1U);

  const Report all = report_of(kTwoRaces, {.policy = Policy::kUniform, .max_findings = 100});
  EXPECT_TRUE(all.has_ended);
  EXPECT_FALSE(all.is_clean());
  EXPECT_EQ(get<std::uint32_t>(address_, 128), std::vector<std::uint32_t>(128, 7));
  // The same pair of lines is one finding, whichever comes first is another.
  ASSERT_GE(all.findings.size(), 2U);
  EXPECT_LE(all.findings.size(), 4U);
  std::uint64_t count = 0;
  for (const Finding& finding : all.findings) {
    EXPECT_EQ(finding.kind, FindingKind::kRace);
    count += finding.count;
  }
  EXPECT_GT(count, all.findings.size());
  EXPECT_TRUE(std::ranges::any_of(all.findings, [](const Finding& finding) {
    return finding.text().ends_with(fmt::format("({} times)", finding.count));
  }));

  const Report two = report_of(kTwoRaces, {.max_findings = 2});
  EXPECT_EQ(two.findings.size(), 2U);
  EXPECT_FALSE(two.has_ended);
}

TEST_F(GoingOnTest, TheLastFindingMayEndTheRun) {
  const std::string body = std::string(kTwoRaces) + "\n  st.global.u32 [%rd3+4096], %r8;";
  const Report report = report_of(body, {.max_findings = 100});
  ASSERT_GE(report.findings.size(), 3U);
  EXPECT_EQ(report.findings.back().kind, FindingKind::kOutOfBounds);
  EXPECT_FALSE(report.has_ended);
}

TEST_F(GoingOnTest, FindingsAreLeftOutByKindAndLine) {
  const auto ignored = [&](const IgnoredFinding& what) {
    return report_of(kTwoRaces, {.max_findings = 100, .ignored = {what}});
  };
  const Report none = ignored({.kind = FindingKind::kRace});
  EXPECT_TRUE(none.is_clean() && none.has_ended);
  EXPECT_GT(none.ignored, 0U);
  EXPECT_TRUE(ignored({}).is_clean());
  EXPECT_EQ(ignored({.kind = FindingKind::kLifetime}).ignored, 0U);
  EXPECT_FALSE(ignored({.kind = FindingKind::kLifetime}).is_clean());
  // A line is that of either access.
  const int first = report_of(kTwoRaces, {}).findings[0].line;
  const Report rest = ignored({.kind = FindingKind::kRace, .line = first});
  ASSERT_FALSE(rest.is_clean());
  EXPECT_GT(rest.ignored, 0U);
  for (const Finding& finding : rest.findings) {
    EXPECT_GT(finding.line, first + 1);
  }
  // What ends a run is told whatever is left out.
  const std::string beyond = std::string(kTwoRaces) + "\n  st.global.u32 [%rd3+4096], %r8;";
  const Report report = report_of(beyond, {.max_findings = 100, .ignored = {IgnoredFinding{}}});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, FindingKind::kOutOfBounds);
}

TEST_F(GoingOnTest, SourcesNameLinesToLeaveOut) {
  const std::string text = kernel(R"(
  .loc 1 40 3
  mov.u32 %r2, words;
  shl.b32 %r3, %r1, 2;
  sub.u32 %r5, 508, %r3;
  add.u32 %r4, %r2, %r3;
  add.u32 %r5, %r5, %r2;
  st.shared.u32 [%r4], %r1;
  .loc 1 70 3
  .loc 1 60 3, function_name $a, inlined_at 1 70 3
  .loc 1 41 3, function_name $b, inlined_at 1 60 3
  .loc 2 5 3, function_name $c, inlined_at 1 41 3
  ld.shared.u32 %r6, [%r5];)",
                                  "") +
                           "\n.file 1 \"/code/kernels/sum.cu\"\n"
                           ".file 2 \"/cuda/crt/mma.hpp\"\n";
  const std::string with_words = [&] {
    std::string all = text;
    const std::string_view size = ".address_size 64\n";
    all.insert(all.find(size) + size.size(), std::string(kWords) + "\n");
    return all;
  }();
  const auto is_clean = [&](std::string_view place) {
    return run(with_words, put(std::vector<std::uint32_t>(128)), 128,
               {.ignored = {IgnoredFinding{.source = std::string(place)}}})
        .is_clean();
  };
  EXPECT_TRUE(is_clean("sum.cu:40"));
  EXPECT_TRUE(is_clean("kernels/sum.cu:41"));
  EXPECT_TRUE(is_clean("/code/kernels/sum.cu:41"));
  for (const std::string_view place : {"sum.cu:60", "sum.cu:70", "crt/mma.hpp:5"}) {
    EXPECT_TRUE(is_clean(place)) << place;
  }
  EXPECT_FALSE(is_clean("um.cu:41"));
  EXPECT_FALSE(is_clean("sum.cu:4"));
  EXPECT_FALSE(is_clean("sum.cu:42"));
}

// Unwritten values, too: behind a branch on one, the run goes on.
TEST_F(GoingOnTest, RunsGoOnBehindUnwrittenValues) {
  const Report report = report_of(R"(
  ld.shared.u32 %r2, [words];
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  mov.u32 %r3, 7;
  st.global.u32 [%rd3], %r2;
DONE:
  mov.u32 %r3, 9;
  st.global.u32 [%rd3], %r3;)",
                                  {.check_stored_values = true, .max_findings = 100});
  EXPECT_TRUE(report.has_ended);
  ASSERT_GE(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, FindingKind::kUninitialized);
  EXPECT_EQ(get<std::uint32_t>(address_, 128), std::vector<std::uint32_t>(128, 9));
}

// An mbarrier that counts a bulk copy, begun without a fence. A block that is a cluster of its own
// needs none.
TEST_F(GoingOnTest, InitialisationsNeedNoFenceIfAsked) {
  const auto report = [&](std::string_view fence, bool is_required) {
    const std::string body = fmt::format(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [full], 1;
  {}
READY:
  bar.sync 0;
  @%p1 bra WAITS;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 64;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [words], [%rd1], 64, [full];
WAITS:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAITS;)",
                                         fence);
    return run(kernel(body, ".shared .align 16 .b8 words[1024]; .shared .align 8 .b64 full;"),
               put(std::vector<std::uint32_t>(32, 1)),
               LaunchConfig{.grid = {2, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}},
               {.check_init_fences = is_required});
  };
  EXPECT_TRUE(report("fence.mbarrier_init.release.cluster;", true).is_clean());
  const Report wrong = report("", true);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_EQ(wrong.findings[0].kind, FindingKind::kRace);
  EXPECT_TRUE(report("", false).is_clean());
}

// Each block writes into the other one's shared memory, and ends.
TEST_F(GoingOnTest, BlocksEndBehindRelaxedArrivalsIfAsked) {
  const auto report = [&](std::string_view last, bool is_required) {
    const std::string body = fmt::format(R"(
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r4, %r2, 1;
  mov.u32 %r5, words;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.shared::cluster.u32 [%r6], %r2;
  {})",
                                         last);
    return run(kernel(body, kWords), put(std::vector<std::uint32_t>(64)),
               LaunchConfig{.grid = {2, 1, 1}, .block = {32, 1, 1}, .cluster = {2, 1, 1}},
               {.check_relaxed_ends = is_required});
  };
  constexpr std::string_view kRelaxed =
      "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;";
  EXPECT_TRUE(
      report("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", true).is_clean());
  const Report wrong = report(kRelaxed, true);
  ASSERT_EQ(wrong.findings.size(), 1U);
  EXPECT_EQ(wrong.findings[0].kind, FindingKind::kLifetime);
  EXPECT_TRUE(report(kRelaxed, false).is_clean());
  EXPECT_FALSE(report("", false).is_clean());
  // What is read must be ordered nevertheless.
  EXPECT_FALSE(report(std::string(kRelaxed) + " ld.shared.u32 %r7, [words];", false).is_clean());
  // What follows the arrival is not behind it.
  EXPECT_FALSE(report("barrier.cluster.arrive.relaxed.aligned; @%p1 st.shared::cluster.u32 "
                      "[%r6+4], %r2; barrier.cluster.wait.aligned;",
                      false)
                   .is_clean());
}

TEST_F(GoingOnTest, AllCustomsCanBeLetPassTogether) {
  RunOptions options{.check_stored_values = true};
  options.let_hardware_customs_pass();
  for (bool RunOptions::* const check : kHardwareCustoms) {
    EXPECT_FALSE(options.*check);
  }
  EXPECT_TRUE(options.check_races);
}

}  // namespace
}  // namespace emu
