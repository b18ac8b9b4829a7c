// Copies and stores that mbarriers count: cp.async with arrivals, bulk copies between blocks,
// reductions, st.async and red.async; and the mbarrier's further instructions.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

class CountedCopiesTest : public DeviceTest {
 protected:
  static constexpr std::uint64_t kSeeds = 20;

  std::set<FindingKind> kinds(const std::string& ptx, std::uint32_t threads,
                              std::uint32_t blocks = 1) {
    return kinds_over(kSeeds, [&](std::uint64_t seed) {
      std::vector<std::uint32_t> words(512);
      for (std::uint32_t i = 0; i < words.size(); ++i) {
        words[i] = i * 3 + 1;
      }
      const std::uint64_t memory = put(words);
      const Report report = run(
          ptx, memory,
          LaunchConfig{.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .cluster = {blocks, 1, 1}},
          {.seed = seed, .max_steps = 300'000});
      if (report.is_clean()) {
        result_ = get<std::uint32_t>(memory, 512);
      }
      return report;
    });
  }

  std::vector<std::uint32_t> result_;
};

using Kinds = std::set<FindingKind>;

constexpr std::string_view kVariables =
    ".shared .align 16 .b8 cells[256]; .shared .align 16 .b8 other[256];"
    ".shared .align 8 .b64 full;";
constexpr std::string_view kWaitForAll = R"(
WAIT:
  mbarrier.test_wait.parity.shared.b64 %p3, [full], 0;
  @!%p3 bra WAIT;
)";

TEST_F(CountedCopiesTest, ArrivalsOfCopies) {
  const auto copies = [](std::string_view arrivals, std::string_view noinc, std::string_view wait,
                         std::string_view arrive = "") {
    return kernel(fmt::format(R"(
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r2, {};
  @%p1 mbarrier.init.shared.b64 [full], %r2;
  bar.sync 0;
  mov.u32 %r3, cells;
  mad.lo.u32 %r4, %r1, 4, %r3;
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  cp.async.mbarrier.arrive{}.shared.b64 [full];
  {}
  {}
  xor.b32 %r5, %r1, 33;
  mad.lo.u32 %r5, %r5, 4, %r3;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd3+1024], %r6;
)",
                              arrivals, noinc, arrive, wait),
                  kVariables);
  };
  EXPECT_EQ(kinds(copies("64", ".noinc", kWaitForAll), 64), Kinds{}) << last_.text();
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(result_.at(256 + i), (i ^ 33U) * 3 + 1);
  }
  EXPECT_EQ(kinds(copies("64", "", kWaitForAll, "mbarrier.arrive.shared.b64 _, [full];"), 64),
            Kinds{})
      << last_.text();
  EXPECT_EQ(result_.at(256), 33U * 3 + 1);
  const Kinds unwaited = kinds(copies("64", ".noinc", "bar.sync 0;"), 64);
  EXPECT_FALSE(unwaited.empty());
  EXPECT_EQ(clean_, 0U);
  EXPECT_EQ(kinds(copies("65", ".noinc", kWaitForAll), 64), Kinds{FindingKind::kNoProgress});
}

TEST_F(CountedCopiesTest, StatesAndDrops) {
  const auto body = kernel(R"(
  mov.u32 %r2, 5;
  mbarrier.init.shared::cta.b64 [full], %r2;
  mbarrier.arrive.noComplete.shared.b64 %rd5, [full], 2;
  mbarrier.pending_count.b64 %r3, %rd5;
  st.global.u32 [%rd1], %r3;
  mbarrier.arrive_drop.shared.b64 %rd6, [full], 1;
  mbarrier.pending_count.b64 %r3, %rd6;
  st.global.u32 [%rd1+4], %r3;
  mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [full], %rd5;
  selp.u32 %r4, 1, 0, %p1;
  st.global.u32 [%rd1+8], %r4;
  mbarrier.arrive.release.cta.shared::cta.b64 %rd7, [full], 2;
  mbarrier.test_wait.shared.b64 %p1, [full], %rd7;
  selp.u32 %r4, 1, 0, %p1;
  st.global.u32 [%rd1+12], %r4;
  mbarrier.arrive.shared.b64 %rd8, [full];
  mbarrier.pending_count.b64 %r3, %rd8;
  st.global.u32 [%rd1+16], %r3;
)",
                           kVariables);
  EXPECT_EQ(kinds(body, 1), Kinds{}) << last_.text();
  EXPECT_EQ(std::vector(result_.begin(), result_.begin() + 5),
            (std::vector<std::uint32_t>{5, 3, 0, 1, 4}));
  const auto completing = kernel(
      "mbarrier.init.shared::cta.b64 [full], 2;"
      "mbarrier.arrive.noComplete.shared.b64 %rd5, [full], 2;",
      kVariables);
  EXPECT_EQ(kinds(completing, 1), Kinds{FindingKind::kBarrierMisuse});
}

// Blocks of a pair that copy 256 bytes to each other, or store them word by word.
TEST_F(CountedCopiesTest, BetweenBlocks) {
  const auto pair = [](std::string_view fence, std::string_view copy, std::string_view wait) {
    return kernel(fmt::format(R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [full], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
  mov.u32 %r3, cells;
  mov.u32 %r4, other;
  mov.u32 %r5, full;
  mad.lo.u32 %r6, %r1, 4, %r3;
  mad.lo.u32 %r7, %r1, 4, %r4;
  st.shared.u32 [%r6], 5;
  mad.lo.u32 %r8, %r2, 1000, %r1;
  st.shared.u32 [%r7], %r8;
  {}
  barrier.cluster.arrive;
  barrier.cluster.wait;
  xor.b32 %r9, %r2, 1;
  mapa.shared::cluster.u32 %r10, %r3, %r9;
  mapa.shared::cluster.u32 %r11, %r5, %r9;
  mapa.shared::cluster.u32 %r12, %r6, %r9;
  {}
  {}
  ld.shared.u32 %r13, [%r6];
  mad.lo.u32 %r14, %r2, 64, %r1;
  mul.wide.u32 %rd5, %r14, 4;
  add.s64 %rd6, %rd1, %rd5;
  st.global.u32 [%rd6], %r13;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)",
                              fence, copy, wait),
                  kVariables);
  };
  constexpr std::string_view kFence = "fence.proxy.async.shared::cta;";
  constexpr std::string_view kBulk =
      "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%r10], [%r4], 256, [%r11];";
  constexpr std::string_view kReduction =
      "@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
      "[%r10], [%r4], 256, [%r11];";
  constexpr std::string_view kStore =
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r8, [%r11];";
  constexpr std::string_view kRed =
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
      "[%r12], %r8, [%r11];";
  for (const std::string_view copy : {kBulk, kReduction, kStore, kRed}) {
    const bool adds = copy == kReduction || copy == kRed;
    EXPECT_EQ(kinds(pair(kFence, copy, kWaitForAll), 64, 2), Kinds{}) << copy << last_.text();
    for (std::uint32_t i = 0; i < 64; ++i) {
      EXPECT_EQ(result_.at(i), 1000 + i + (adds ? 5 : 0)) << copy;
      EXPECT_EQ(result_.at(64 + i), i + (adds ? 5 : 0)) << copy;
    }
    const Kinds unwaited = kinds(pair(kFence, copy, ""), 64, 2);
    EXPECT_FALSE(unwaited.empty()) << copy;
    EXPECT_EQ(clean_, 0U) << copy;
  }
  EXPECT_EQ(kinds(pair("", kBulk, kWaitForAll), 64, 2), Kinds{FindingKind::kNoProxyFence});
  EXPECT_EQ(kinds(pair("", kStore, kWaitForAll), 64, 2), Kinds{}) << last_.text();
}

// Two loads in a phase that awaits the bytes of both, or fewer.
TEST_F(CountedCopiesTest, APhaseAwaitsAllBytesOfItsLoads) {
  const auto loads = [](std::string_view before, std::string_view after) {
    return kernel(fmt::format(R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared.b64 [full], 1;
  @%p1 fence.mbarrier_init.release.cluster;
  bar.sync 0;
  mov.u32 %r3, cells;
  add.u32 %r4, %r3, 128;
  add.s64 %rd4, %rd1, 128;
  {}
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [full];
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd4], 128, [full];
  {}
  {}
  mad.lo.u32 %r5, %r1, 4, %r3;
  ld.shared.u32 %r6, [%r5];
  st.global.u32 [%rd3+1024], %r6;
  bar.sync 0;
  @%p1 mbarrier.inval.shared.b64 [full];
)",
                              before, after, kWaitForAll),
                  kVariables);
  };
  constexpr std::string_view kAll =
      "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;";
  constexpr std::string_view kOne =
      "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;";
  // Bytes may come before they are expected, and be expected one after the other.
  constexpr std::string_view kRest =
      "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 128;";
  const std::string later = fmt::format("{}{}", kRest, kOne);
  EXPECT_EQ(kinds(loads(kAll, ""), 64), Kinds{}) << last_.text();
  EXPECT_EQ(kinds(loads("", kAll), 64), Kinds{}) << last_.text();
  EXPECT_EQ(kinds(loads(kRest, kOne), 64), Kinds{}) << last_.text();
  EXPECT_EQ(kinds(loads("", later), 64), Kinds{}) << last_.text();
  EXPECT_EQ(result_.at(256 + 63), 63U * 3 + 1);
  for (const auto& [before, after] : {std::pair(kOne, std::string_view()), {"", kOne}}) {
    const Kinds found = kinds(loads(before, after), 64);
    EXPECT_TRUE(found.contains(FindingKind::kBarrierMisuse)) << last_.text();
    EXPECT_EQ(clean_, 0U);
  }
}

TEST_F(CountedCopiesTest, ReductionsIntoGlobalMemory) {
  const auto body = [](std::string_view type, std::string_view value) {
    return kernel(fmt::format(R"(
  mov.u32 %r3, cells;
  mad.lo.u32 %r4, %r1, 4, %r3;
  mov.b32 %r5, {};
  st.shared.u32 [%r4], %r5;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [%rd1], [%r3], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
)",
                              value, type),
                  kVariables);
  };
  // Blocks whose reductions meet in the same words.
  const auto kinds_of = [&](const std::string& ptx) {
    return kinds_over(kSeeds, [&](std::uint64_t seed) {
      std::vector<std::uint32_t> words(64);
      for (std::uint32_t i = 0; i < words.size(); ++i) {
        words[i] = i * 3 + 1;
      }
      const std::uint64_t memory = put(words);
      const Report report =
          run(ptx, memory, LaunchConfig{.grid = {3, 1, 1}, .block = {64, 1, 1}}, {.seed = seed});
      result_ = get<std::uint32_t>(memory, 64);
      return report;
    });
  };
  EXPECT_EQ(kinds_of(body("add.u32", "7")), Kinds{}) << last_.text();
  EXPECT_EQ(result_.at(20), 61U + 21);
  EXPECT_EQ(kinds_of(body("max.s32", "100")), Kinds{});
  EXPECT_EQ(result_.at(20), 100U);
  EXPECT_EQ(result_.at(40), 121U);
  EXPECT_EQ(kinds_of(body("or.b32", "1024")), Kinds{});
  EXPECT_EQ(result_.at(40), 121U | 1024U);
  for (const std::string_view type : {"add.b32", "exch.b32", "add.f16", "sub.u32", "and.u32"}) {
    EXPECT_THROW(static_cast<void>(device_.load(body(type, "0"))), std::exception) << type;
  }
}

}  // namespace
}  // namespace emu
