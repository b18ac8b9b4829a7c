// The mistakes that pipelines of copies are known for, each beside the kernel without it: found on
// every schedule, and named.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tensor_fixture.hpp"

namespace emu {
namespace {

constexpr std::uint64_t kSchedules = 50;

class ClassicsTest : public SmallBoxTest {
 protected:
  // The kinds of findings of so many schedules with two warps.
  std::set<FindingKind> kinds_of(const std::string& body) {
    const std::string ptx = kernel(body, kShared);
    return kinds_over(kSchedules, [&](std::uint64_t seed) {
      LaunchConfig config = one_warp(2048);
      config.block[0] = 64;
      options_.seed = seed;
      return run(ptx, put_map(encode(desc_), 4096), config, options_);
    });
  }

  RunOptions options_;
};

TEST_F(ClassicsTest, NoProxyFenceBeforeAStore) {
  const auto body = [](std::string_view fence) {
    return fmt::format(
        "{} shl.b32 %r4, %r1, 3; add.u32 %r4, %r4, %r2; st.shared.v2.u32 [%r4], {{%r1, %r2}};"
        "{} bar.sync 0; @%p1 bra DONE; {} [%rd1, {{0, 0}}], [%r2];"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:",
        kBegin, fence, kStore);
  };
  EXPECT_EQ(kinds_of(body("fence.proxy.async.shared::cta;")), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of(body("")), std::set{FindingKind::kNoProxyFence});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("without a fence.proxy.async between them"), std::string::npos)
      << last_.text();
  EXPECT_NE(last_.text().find("earlier access: test: st.shared.v2.u32"), std::string::npos)
      << last_.text();
}

// Two boxes through one stage. Warp 1 reads the first; thread 0 loads the second behind it.
std::string two_laps(std::string_view load, std::string_view before_reuse,
                     std::string_view second_parity) {
  return fmt::format(R"({}
  @%p1 bra FIRST;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
  {} [%r2], [%rd1, {{0, 0}}], [%r3];
FIRST:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra FIRST;
  mov.u32 %r8, 0;
  setp.lt.u32 %p4, %r1, 32;
  @%p4 bra READ;
  ld.shared.u32 %r8, [%r2+64];
READ:
  {}
  @%p1 bra SECOND;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
  {} [%r2], [%rd1, {{0, 8}}], [%r3];
SECOND:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], {};
  @!%p2 bra SECOND;
  ld.shared.u32 %r9, [%r2+64];
  add.u32 %r8, %r8, %r9;
  st.global.u32 [%rd3+256], %r8;
LAST:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 1;
  @!%p2 bra LAST;)",
                     kBegin, load, before_reuse, load, second_parity);
}

TEST_F(ClassicsTest, AStageThatIsUsedAgainTooEarly) {
  EXPECT_EQ(kinds_of(two_laps(kLoad, "bar.sync 0;", "1")), std::set<FindingKind>{});
  const auto kinds = kinds_of(two_laps(kLoad, "", "1"));
  EXPECT_TRUE(kinds.contains(FindingKind::kRace));
  EXPECT_EQ(clean_, 0U);
}

TEST_F(ClassicsTest, TheWrongPhaseOnTheSecondLap) {
  const auto kinds = kinds_of(two_laps(kLoad, "bar.sync 0;", "0"));
  EXPECT_TRUE(kinds.contains(FindingKind::kRace));
  EXPECT_EQ(clean_, 0U);
}

// Warp 0 loads a box again and again, and both warps wait for each. Nothing keeps warp 0 from the
// load after the next before warp 1 has looked, which is busy with so many rounds before it does.
std::string waits_alone(std::string_view load, std::string_view meeting, int rounds = 1) {
  return fmt::format(R"({}
  mov.u32 %r6, 0;
  setp.lt.u32 %p5, %r1, 32;
LAP:
  mov.u32 %r7, 0;
  @%p5 bra LOAD;
BUSY:
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p4, %r7, {};
  @%p4 bra BUSY;
LOAD:
  @%p1 bra LOADED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
  {} [%r2], [%rd1, {{0, 0}}], [%r3];
LOADED:
  and.b32 %r5, %r6, 1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r5;
  @!%p2 bra WAIT;
  {}
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p3, %r6, 6;
  @%p3 bra LAP;)",
                     kBegin, rounds, load, meeting);
}

TEST_F(ClassicsTest, AWarpThatMissesPhases) {
  EXPECT_EQ(kinds_of(waits_alone(kLoad, "bar.sync 0;")), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of(waits_alone(kLoad, "")), std::set{FindingKind::kDeadlock});
  EXPECT_GT(clean_, 0U);
  EXPECT_NE(last_.text().find("waits at the mbarrier"), std::string::npos) << last_.text();
  options_.check_late_warps = false;
  EXPECT_EQ(kinds_of(waits_alone(kLoad, "", 200)), std::set<FindingKind>{});
  // What keeps it is in the kernel.
  options_.policy = Policy::kEager;
  EXPECT_EQ(kinds_of(waits_alone(kLoad, "", 100'000)), std::set{FindingKind::kDeadlock});
  EXPECT_EQ(clean_, 0U);
}

// Both warps write half of what warp 1 then reads; the mbarrier waits for so many arrivals.
TEST_F(ClassicsTest, AnArrivalTooFew) {
  const auto body = [](int arrivals) {
    return fmt::format(R"(
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared::cta.b64 [%r3], {};
  bar.sync 0;
  shl.b32 %r4, %r1, 2;
  add.u32 %r4, %r4, %r2;
  st.shared.u32 [%r4], %r1;
  and.b32 %r5, %r1, 31;
  setp.eq.u32 %p2, %r5, 0;
  bar.warp.sync -1;
  @%p2 mbarrier.arrive.shared::cta.b64 _, [%r3];
W:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
  @!%p3 bra W;
  xor.b32 %r6, %r4, 128;
  ld.shared.u32 %r7, [%r6];
  st.global.u32 [%rd3+256], %r7;)",
                       arrivals);
  };
  EXPECT_EQ(kinds_of(body(2)), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of(body(3)), std::set{FindingKind::kDeadlock});
  EXPECT_EQ(clean_, 0U);
  // Or the second arrival ends the phase after it, before its own warp waits.
  EXPECT_EQ(kinds_of(body(1)), (std::set{FindingKind::kDeadlock, FindingKind::kRace}));
  EXPECT_EQ(clean_, 0U);
}

// Rows of as many bytes as the swizzle is wide, eight boxes of them one after the other, from a
// matrix whose rows are longer.
class SwizzleStartTest : public ClassicsTest,
                         public ::testing::WithParamInterface<TensorMapSwizzle> {
 protected:
  void SetUp() override {
    ClassicsTest::SetUp();
    swizzle_ = GetParam();
    span_ = 16U << static_cast<unsigned>(swizzle_);
    desc_ = {.type = TensorMapType::kU8,
             .rank = 2,
             .address = put(matrix_),
             .dims = {span_, kRows},
             .strides = {span_},
             .box = {span_, kRows},
             .swizzle = swizzle_};
    std::vector<std::byte> zeros(kRows * span_);
    results_ = put(zeros);
  }

  // The place of a lane's own 16 bytes in %r6, as code that counts rows from the beginning of the
  // box finds it, of all in the matrix at %rd7 and %rd8 (the results).
  [[nodiscard]] std::string place() const {
    const unsigned units = 1U << static_cast<unsigned>(swizzle_);
    return fmt::format(R"(
  shl.b32 %r6, %r1, 4;
  shr.u32 %r7, %r6, 3;
  and.b32 %r7, %r7, {};
  cvt.u64.u32 %rd9, %r6;
  add.u64 %rd7, %rd9, {};
  add.u64 %rd8, %rd9, {};
  xor.b32 %r6, %r6, %r7;
  add.u32 %r6, %r6, %r2;)",
                       (units - 1) << 4U, desc_.address, results_);
  }

  // A thread reads or writes 16 bytes of the box: all of it are used. `start`: of the tile.
  Report run_box(std::string_view start, std::string_view body, const RunOptions& options) {
    const std::string ptx = kernel(
        fmt::format("{} add.u32 %r2, %r2, {}; {} {}", kBegin, start, place(), body), kShared);
    LaunchConfig config = one_warp(4096);
    config.block[0] = kRows * span_ / 16;
    return run(ptx, put_map(encode(desc_), 16), config, options);
  }

  // For all swizzles: found on every schedule, unless asked not to look, and then the results are
  // wrong.
  void expect_found(std::string_view body, std::uint64_t results) {
    const std::vector<std::byte> expected(matrix_.begin(),
                                          matrix_.begin() + std::int64_t{kRows} * span_);
    const std::uint32_t period = span_ * 8;
    for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
      for (const std::uint32_t start : {0U, period}) {
        device_.write(results, std::vector<std::byte>(expected.size()));
        const Report report = run_box(std::to_string(start), body, {.seed = seed});
        ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
        EXPECT_EQ(get<std::byte>(results, expected.size()), expected);
      }
      const std::string unaligned = std::to_string(128 * (1 + seed % (period / 128 - 1)));
      const Report report = run_box(unaligned, body, {.seed = seed});
      ASSERT_EQ(report.findings.size(), 1U);
      EXPECT_EQ(report.findings.front().kind, FindingKind::kMisaligned);
      EXPECT_NE(report.findings.front().message.find(
                    fmt::format("the swizzle of {} bytes repeats every {}", span_, period)),
                std::string::npos)
          << report.findings.front().message;
      device_.write(results, std::vector<std::byte>(expected.size()));
      const Report silent = run_box(unaligned, body, {.seed = seed, .check_swizzle_starts = false});
      ASSERT_TRUE(silent.is_clean()) << silent.findings.front().text();
      EXPECT_NE(get<std::byte>(results, expected.size()), expected);
    }
  }

  static constexpr std::uint32_t kRows = 16;
  TensorMapSwizzle swizzle_ = TensorMapSwizzle::kNone;
  std::uint32_t span_ = 0;
  std::uint64_t results_ = 0;
};

TEST_P(SwizzleStartTest, OfALoadIsFound) {
  expect_found(fmt::format("{} {} ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r6];"
                           "st.global.v4.u32 [%rd8], {{%r20, %r21, %r22, %r23}};",
                           load_text(std::uint64_t{kRows} * span_,
                                     fmt::format("{} [%r2], [%rd1, {{0, 0}}], [%r3]", kLoad)),
                           kWait),
               results_);
}

TEST_P(SwizzleStartTest, OfAStagedStoreIsFound) {
  const std::uint64_t matrix = std::exchange(desc_.address, results_);
  expect_found(fmt::format("add.u64 %rd7, %rd9, {};"
                           "ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd7];"
                           "st.shared.v4.u32 [%r6], {{%r20, %r21, %r22, %r23}};"
                           "fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE;"
                           "{} [%rd1, {{0, 0}}], [%r2]; cp.async.bulk.commit_group;"
                           "cp.async.bulk.wait_group 0; DONE:",
                           matrix, kStore),
               results_);
}

INSTANTIATE_TEST_SUITE_P(Swizzles, SwizzleStartTest,
                         ::testing::Values(TensorMapSwizzle::k32, TensorMapSwizzle::k64,
                                           TensorMapSwizzle::k128));

// A block of a cluster of two goes, with or without a word of the other that it is done with what
// is in the first one's shared memory.
class PeerTest : public ClassicsTest {
 protected:
  // `body`: what thread 0 of the second block does; `end`: what all then do in both.
  std::set<FindingKind> kinds_of_peers(std::string_view body, std::string_view end) {
    const std::string ptx = kernel(fmt::format(R"({}
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r10, %cluster_ctarank;
  setp.ne.u32 %p4, %r10, 1;
  or.pred %p4, %p4, %p1;
  mapa.shared::cluster.u32 %r12, %r2, 0;
  mapa.shared::cluster.u32 %r13, %r3, 0;
  @%p4 bra GO;
  {}
GO:
  {})",
                                               kBegin, body, end),
                                   kShared);
    return kinds_over(kSchedules, [&](std::uint64_t seed) {
      LaunchConfig config = one_warp(2048);
      config.grid[0] = config.cluster[0] = 2;
      return run(ptx, put_map(encode(desc_), 16), config, {.seed = seed});
    });
  }

  void expect_found(std::string_view body, std::string_view said, std::string_view end = kMeet) {
    EXPECT_EQ(kinds_of_peers(body, end), std::set<FindingKind>{}) << last_.text();
    EXPECT_EQ(kinds_of_peers(body, ""), std::set{FindingKind::kLifetime});
    EXPECT_EQ(clean_, 0U);
    EXPECT_NE(last_.text().find(said), std::string::npos) << last_.text();
  }

  static constexpr std::string_view kMeet =
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
};

TEST_F(PeerTest, StoresIntoABlockThatGoes) {
  expect_found("st.shared::cluster.u32 [%r12], %r10;", "st.shared::cluster.u32");
}

TEST_F(PeerTest, ArrivesAtABlockThatGoes) {
  expect_found("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];",
               "mbarrier.arrive.release.cluster.shared::cluster.b64");
}

TEST_F(PeerTest, MulticastsToABlockThatGoes) {
  expect_found(
      "mov.u16 %rs1, 3;"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%r2], [%rd1, {0, 0}], [%r3], %rs1;"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra W;",
      "cp.async.bulk.tensor.2d",
      "setp.ne.u32 %p5, %r10, 0; or.pred %p5, %p5, %p1;"
      "@!%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;"
      "E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra E;");
}

// What ends while a bulk store of its own still reads is the same mistake.
TEST_F(ClassicsTest, ABlockGoesBeforeItsStoreHasRead) {
  const auto body = [](std::string_view wait) {
    return fmt::format(
        "{} shl.b32 %r4, %r1, 3; add.u32 %r4, %r4, %r2; st.shared.v2.u32 [%r4], {{%r1, %r2}};"
        "fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE; {} [%rd1, {{0, 0}}], [%r2];"
        "cp.async.bulk.commit_group; {} DONE:",
        kBegin, kStore, wait);
  };
  EXPECT_EQ(kinds_of(body("cp.async.bulk.wait_group.read 0;")), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of(body("")), std::set{FindingKind::kLifetime});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("cp.async.bulk.tensor.2d"), std::string::npos) << last_.text();
  options_.check_last_stores = false;
  EXPECT_EQ(kinds_of(body("")), std::set<FindingKind>{});
}

// Threads write to a stage that has been loaded; the next load comes behind a barrier.
TEST_F(ClassicsTest, NoProxyFenceBeforeALoadOverWhatThreadsHaveWritten) {
  const auto body = [](std::string_view fence) {
    return two_laps(kLoad,
                    fmt::format("shl.b32 %r4, %r1, 3; add.u32 %r4, %r4, %r2;"
                                "bar.sync 0; st.shared.v2.u32 [%r4], {{%r1, %r2}}; {} bar.sync 0;",
                                fence),
                    "1");
  };
  EXPECT_EQ(kinds_of(body("fence.proxy.async.shared::cta;")), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of(body("")), std::set{FindingKind::kNoProxyFence});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("earlier access: test: st.shared.v2.u32"), std::string::npos)
      << last_.text();
}

// One grid writes, lets the next start, and goes on; that one copies what was written.
class DependentGridTest : public ClassicsTest {
 protected:
  // The copy: from 4 bytes a thread of the first 1024 to the same of the next. `between`: a grid
  // between the two, which lets the copy start as well.
  std::set<FindingKind> kinds_of_grids(std::string_view reads, bool is_dependent = true,
                                       std::optional<std::string_view> between = std::nullopt) {
    std::vector<std::string> texts = {R"(
  griddepcontrol.launch_dependents;
  mov.u32 %r3, 7;
  st.global.u32 [%rd3], %r3;)"};
    if (between.has_value()) {
      texts.emplace_back(fmt::format("{} st.global.u32 [%rd3+512], %r1;", *between));
    }
    texts.emplace_back(std::string(reads) + "st.global.u32 [%rd3+1024], %r2;");
    std::vector<KernelHandle> kernels;
    for (const std::string& text : texts) {
      kernels.push_back(device_.load(kernel(text)).front());
    }
    return kinds_over(kSchedules, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(512, 1));
      const auto bytes = std::bit_cast<std::array<std::byte, 8>>(memory);
      std::vector<Launch> launches;
      for (const KernelHandle& loaded : kernels) {
        launches.push_back({.kernel = loaded,
                            .config = {.block = {64, 1, 1}},
                            .parameters = {bytes.begin(), bytes.end()}});
      }
      launches[1].config.is_dependent = launches.size() == 3 || is_dependent;
      launches.back().config.is_dependent = is_dependent;
      return device_.run(launches, {.seed = seed});
    });
  }
};

TEST_F(DependentGridTest, ReadsBeforeTheOneBeforeHasWritten) {
  EXPECT_EQ(kinds_of_grids("griddepcontrol.wait; ld.global.u32 %r2, [%rd3];"),
            std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids("ld.global.u32 %r2, [%rd3];", false), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids("ld.global.u32 %r2, [%rd3];"), std::set{FindingKind::kRace});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("griddepcontrol.wait"), std::string::npos) << last_.text();
}

// Read-only loads may be made before the wait: they are of what nobody writes while the grid lives.
TEST_F(DependentGridTest, ReadsAsConstantWhatTheOneBeforeWrites) {
  constexpr std::string_view kRead = "griddepcontrol.wait; ld.global.nc.u32 %r2, [%rd3];";
  EXPECT_EQ(kinds_of_grids("griddepcontrol.wait; ld.global.u32 %r2, [%rd3];"),
            std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids(kRead, false), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids(kRead), std::set{FindingKind::kRace});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("as read-only (.nc)"), std::string::npos) << last_.text();
}

// The wait is for the grid before alone: who wrote is one further, and that grid does not wait.
TEST_F(DependentGridTest, ReadsWhatOneFurtherBackWrites) {
  constexpr std::string_view kRead = "griddepcontrol.wait; ld.global.u32 %r2, [%rd3];";
  constexpr std::string_view kNoWait = "griddepcontrol.launch_dependents;";
  EXPECT_EQ(kinds_of_grids(kRead, true, "griddepcontrol.launch_dependents; griddepcontrol.wait;"),
            std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids(kRead, false, kNoWait), std::set<FindingKind>{});
  EXPECT_EQ(kinds_of_grids(kRead, true, kNoWait), std::set{FindingKind::kRace});
  EXPECT_EQ(clean_, 0U);
  EXPECT_NE(last_.text().find("had not ended when this one began"), std::string::npos)
      << last_.text();
}

}  // namespace
}  // namespace emu
