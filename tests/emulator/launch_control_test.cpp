// Clusters that are cancelled before they start, whose work a running block does instead, and
// registers of 128 bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

using Kinds = std::set<FindingKind>;

constexpr std::string_view kAnswerVariables =
    ".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 full;";

/// What a test changes in the kernel.
struct TakeOverParts {
  std::string_view init = "fence.mbarrier_init.release.cluster;";
  std::string_view request = ".shared::cta";
  std::string_view wait = R"(
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r12;
  @!%p3 bra WAIT;)";
  std::string_view read = "ld.shared.b128 %q1, [answer];";
  std::string_view end = "@!%p4 bra DONE;";
  std::string_view fence = "";
};

// Blocks of 64 threads. Each counts in memory[z * 100 + y * 10 + x] how often the work of the block
// with this index was done, in a loop that goes on until a request fails.
std::string taking_over(const TakeOverParts& parts) {
  return kernel(
      fmt::format(R"(
  .reg .b128 %q<4>;
  mov.u32 %r12, 0;
  mov.u32 %r13, %ctaid.x;
  mov.u32 %r14, %ctaid.y;
  mov.u32 %r15, %ctaid.z;
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r2, 1;
  @%p1 mbarrier.init.shared::cta.b64 [full], %r2;
  {}
LOOP:
  bar.sync 0;
  @!%p1 bra WORK;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [full], 16;
  clusterlaunchcontrol.try_cancel.async{}.mbarrier::complete_tx::bytes.b128 [answer], [full];
  mad.lo.u32 %r3, %r14, 10, %r13;
  mad.lo.u32 %r3, %r15, 100, %r3;
  mad.wide.u32 %rd6, %r3, 4, %rd1;
  red.global.add.u32 [%rd6], 1;
WORK:
{}
  xor.b32 %r12, %r12, 1;
  {}
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q1;
  {}
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r13, %r14, %r15, _}}, %q1;
  {}
  bra LOOP;
DONE:
)",
                  parts.init, parts.request, parts.wait, parts.read, parts.end, parts.fence),
      kAnswerVariables);
}

class LaunchControlTest : public DeviceTest {
 protected:
  static constexpr std::uint64_t kSeeds = 40;
  static constexpr LaunchConfig kConfig{.grid = {4, 3, 2}, .block = {64, 1, 1}};

  Kinds kinds(const std::string& ptx, const LaunchConfig& config = kConfig) {
    return kinds_over(kSeeds, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(200));
      const Report report = run(ptx, memory, config, {.seed = seed, .max_steps = 300'000});
      counts_ = get<std::uint32_t>(memory, 200);
      if (report.is_clean()) {
        EXPECT_EQ(counts_, once(config)) << "seed " << seed;
      }
      return report;
    });
  }

  // One for each block of the grid.
  static std::vector<std::uint32_t> once(const LaunchConfig& config) {
    std::vector<std::uint32_t> counts(200);
    for (std::uint32_t z = 0; z < config.grid[2]; ++z) {
      for (std::uint32_t y = 0; y < config.grid[1]; ++y) {
        std::fill_n(counts.begin() + z * 100 + y * 10, config.grid[0], 1U);
      }
    }
    return counts;
  }

  std::string refusal(std::string_view body) {
    try {
      device_.load(kernel(fmt::format(".reg .b128 %q<4>; {}", body), kAnswerVariables));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::vector<std::uint32_t> counts_;
};

TEST_F(LaunchControlTest, EachBlockIsRunOrTakenOverOnce) {
  EXPECT_EQ(kinds(taking_over({})), Kinds{}) << last_.text();
  EXPECT_EQ(kinds(taking_over({.request = ""})), Kinds{FindingKind::kOutOfBounds});
}

// Whether blocks are taken over, and requests fail though blocks are left, depends on the seed.
TEST_F(LaunchControlTest, SomeBlocksAreTakenOver) {
  // The block counts how many others it has begun to work for.
  std::set<std::uint32_t> started;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t memory = put(std::vector<std::uint32_t>(200));
    const std::string ptx = taking_over(
        {.init = "fence.mbarrier_init.release.cluster; @%p1 red.global.add.u32 [%rd1+796], 1;"});
    const Report report = run(ptx, memory, kConfig, {.seed = seed});
    EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
    started.insert(get<std::uint32_t>(memory, 200).back());
  }
  EXPECT_GE(*started.begin(), 4U);  // those that are resident
  EXPECT_LT(*started.begin(), 12U);
  EXPECT_GT(started.size(), 3U);
}

TEST_F(LaunchControlTest, AGridThatIsAllResidentHasNothingToCancel) {
  LaunchConfig config{.grid = {4, 1, 1}, .block = {64, 1, 1}, .is_cooperative = true};
  EXPECT_EQ(kinds(taking_over({}), config), Kinds{}) << last_.text();
  config.is_cooperative = false;
  EXPECT_EQ(kinds(taking_over({}), config), Kinds{}) << last_.text();
}

TEST_F(LaunchControlTest, SingleIndicesAndOtherLoads) {
  std::string single = taking_over({});
  const std::string_view all =
      "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r13, %r14, %r15, _}, %q1;";
  single.replace(single.find(all), all.size(), R"(
  clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r13, %q1;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r14, %q1;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r15, %q1;)");
  EXPECT_EQ(kinds(single), Kinds{}) << last_.text();
  EXPECT_EQ(kinds(taking_over({.read = "ld.shared.v2.b64 {%rd7, %rd8}, [answer];"
                                       "mov.b128 %q2, {%rd7, %rd8};"
                                       "mov.b128 {%rd9, %rd10}, %q2;"
                                       "mov.b128 %q1, {%rd9, %rd10};"})),
            Kinds{})
      << last_.text();
}

TEST_F(LaunchControlTest, AResponseHasToBeWaitedFor) {
  const Kinds unwaited = kinds(taking_over({.wait = "bar.sync 1;"}));
  EXPECT_TRUE(unwaited.contains(FindingKind::kRace) ||
              unwaited.contains(FindingKind::kUninitialized));
  EXPECT_EQ(clean_, 0U);
}

// The next request must not write over a response that another warp still reads.
TEST_F(LaunchControlTest, AResponseIsReadBeforeTheNextOneComes) {
  std::string apart = taking_over({});
  const std::string_view barrier = "LOOP:\n  bar.sync 0;";
  apart.replace(apart.find(barrier), barrier.size(), "bar.sync 0;\nLOOP:");
  EXPECT_TRUE(kinds(apart).contains(FindingKind::kRace));
}

TEST_F(LaunchControlTest, AnIndexThatWasNotGivenIsNone) {
  const Kinds found = kinds(taking_over(
      {.end = "", .fence = "setp.eq.u32 %p5, %r13, 77; @%p5 bra DONE; @!%p4 bra DONE;"}));
  EXPECT_EQ(found, Kinds{FindingKind::kUninitialized}) << last_.text();
}

TEST_F(LaunchControlTest, AfterAFailureNothingMayBeAskedFor) {
  const Kinds found = kinds(taking_over({.init = "fence.mbarrier_init.release.cluster;"
                                                 "mov.u32 %r20, 0;",
                                         .end = "",
                                         .fence = "selp.u32 %r13, %r13, 0, %p4;"
                                                  "selp.u32 %r14, %r14, 0, %p4;"
                                                  "selp.u32 %r15, %r15, 0, %p4;"
                                                  "add.u32 %r20, %r20, 1;"
                                                  "setp.gt.u32 %p5, %r20, 50; @%p5 bra DONE;"}));
  EXPECT_EQ(found, Kinds{FindingKind::kIllegalOperand}) << last_.text();
  EXPECT_NE(last_.text().find("has seen that a request failed"), std::string::npos);
}

TEST_F(LaunchControlTest, OtherValuesAreNoResponses) {
  EXPECT_EQ(finding_of(R"(
  .reg .b128 %q<2>;
  mov.u64 %rd5, 0;
  mov.b128 %q1, {%rd5, %rd5};
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;
)"),
            FindingKind::kIllegalOperand);
}

TEST_F(LaunchControlTest, TheMbarrierMustBeThere) {
  EXPECT_EQ(finding_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [full];
DONE:
)",
                       32, kAnswerVariables),
            FindingKind::kBarrierMisuse);
  EXPECT_EQ(finding_of(R"(
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer+8], [full];
)",
                       1, kAnswerVariables),
            FindingKind::kMisaligned);
}

// The bytes of an answer count like those of a copy: they must be expected in the phase in which it
// was asked for.
TEST_F(LaunchControlTest, TheBytesOfAResponseAreExpected) {
  const auto asks = [](std::string_view arrival) {
    return kernel(fmt::format(R"(
  mov.u32 %r2, 1;
  mbarrier.init.shared::cta.b64 [full], %r2;
  fence.mbarrier_init.release.cluster;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [full];
  {})",
                              arrival),
                  kAnswerVariables);
  };
  const auto found = [&](std::string_view arrival) {
    return kinds_over(kSeeds, [&](std::uint64_t seed) {
      return run(asks(arrival), put(std::vector<std::uint32_t>(1)), 1, {.seed = seed});
    });
  };
  EXPECT_EQ(found("mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [full], 16; mov.u32 %r12, 0;" +
                  std::string(TakeOverParts().wait)),
            Kinds{})
      << last_.text();
  EXPECT_TRUE(
      found("mbarrier.arrive.shared::cta.b64 %rd5, [full];").contains(FindingKind::kBarrierMisuse));
}

// Clusters of 2 x 1 blocks; the first block asks for both.
std::string answer_to_all(std::string_view first_barrier, std::string_view last_barrier) {
  return kernel(fmt::format(R"(
  .reg .b128 %q<4>;
  mov.u32 %r12, 0;
  mov.u32 %r13, %ctaid.x;
  mov.u32 %r14, %ctaid.y;
  mov.u32 %r16, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  setp.eq.and.u32 %p2, %r16, 0, %p1;
  mov.u32 %r2, 1;
  @%p1 mbarrier.init.shared::cta.b64 [full], %r2;
  fence.mbarrier_init.release.cluster;
LOOP:
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [full], 16;
  {}
  @%p2 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [answer], [full];
  mad.lo.u32 %r3, %r14, 10, %r13;
  mad.wide.u32 %rd6, %r3, 4, %rd1;
  @%p1 red.global.add.u32 [%rd6], 1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r12;
  @!%p3 bra WAIT;
  xor.b32 %r12, %r12, 1;
  ld.shared.b128 %q1, [answer];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q1;
  @!%p4 bra DONE;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r13, %r14, _, _}}, %q1;
  add.u32 %r13, %r13, %r16;
  bra LOOP;
DONE:
  {}
)",
                            first_barrier, last_barrier),
                kAnswerVariables);
}

TEST_F(LaunchControlTest, AResponseForAllBlocksOfACluster) {
  constexpr LaunchConfig kClusters{.grid = {6, 3, 1}, .block = {64, 1, 1}, .cluster = {2, 1, 1}};
  const std::string_view both = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  EXPECT_EQ(kinds(answer_to_all(both, ""), kClusters), Kinds{}) << last_.text();
  // The other block may not have an mbarrier yet, or still read the response before.
  EXPECT_FALSE(kinds(answer_to_all("bar.sync 0;", ""), kClusters).empty());
  EXPECT_EQ(clean_, 0U);
}

// Grids behind it go on once all blocks have ended or are cancelled.
TEST_F(LaunchControlTest, TheNextGridComesBehindIt) {
  const KernelHandle kernel = device_.load(taking_over({})).front();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::uint64_t memory = put(std::vector<std::uint32_t>(200));
    const auto bytes = std::bit_cast<std::array<std::byte, 8>>(memory);
    Launch launch{.kernel = kernel, .config = kConfig, .parameters = {bytes.begin(), bytes.end()}};
    const Report report = device_.run(std::vector{launch, launch}, {.seed = seed});
    EXPECT_TRUE(report.is_clean() && report.has_ended) << report.findings.front().text();
    std::vector<std::uint32_t> twice = once(kConfig);
    std::ranges::for_each(twice, [](std::uint32_t& count) { count *= 2; });
    EXPECT_EQ(get<std::uint32_t>(memory, 200), twice);
  }
}

TEST_F(LaunchControlTest, WhatIsUnknownIsRefused) {
  const std::string_view request =
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes";
  EXPECT_EQ(refusal(fmt::format("{}.b128 [answer], [full];", request)), "");
  EXPECT_NE(refusal(fmt::format("{}.multicast::cluster.b128 [answer], [full];", request)), "");
  EXPECT_NE(refusal(fmt::format("{}.b64 [answer], [full];", request)), "");
  EXPECT_NE(refusal("clusterlaunchcontrol.query_cancel.is_canceled.b32.b128 %r2, %q1;"), "");
  EXPECT_NE(refusal("clusterlaunchcontrol.query_cancel.get_first_ctaid::w.b32.b128 %r2, %q1;"), "");
  EXPECT_NE(refusal("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rd1;"), "");
  EXPECT_NE(refusal("ld.shared.v2.b128 {%q1, %q2}, [answer];"), "");
  EXPECT_NE(refusal("ld.shared.b64 %q1, [answer];"), "");
}

// Loads and stores of 128 bits: values, addresses, and what was not written.
TEST_F(LaunchControlTest, AccessesOf128Bits) {
  std::vector<std::uint32_t> words(512);
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    words[i] = i * 0x01000193U;
  }
  const auto moved = after(R"(
  .reg .b128 %q<4>;
  mul.wide.u32 %rd4, %r1, 16;
  add.u64 %rd4, %rd4, %rd1;
  ld.global.nc.b128 %q1, [%rd4];
  ld.volatile.global.b128 %q2, [%rd4];
  mov.b128 %q3, %q1;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 mov.b128 %q3, %q2;
  st.global.b128 [%rd4+1024], %q3;
)",
                           words, 64);
  EXPECT_TRUE(std::equal(words.begin(), words.begin() + 256, moved.begin() + 256));
  EXPECT_EQ(finding_of(".reg .b128 %q<2>; ld.global.b128 %q1, [%rd3];"), FindingKind::kMisaligned);
  EXPECT_EQ(
      finding_of(".reg .b128 %q<2>; ld.shared.b128 %q1, [answer]; st.global.b128 [%rd1], %q1;", 1,
                 kAnswerVariables, {.check_stored_values = true}),
      FindingKind::kUninitialized);
}

}  // namespace
}  // namespace emu
