// The mistakes that pipelines of copies are known for, each beside the kernel without it: found on
// every schedule, and named.
#include <cstdint>
#include <set>
#include <string>

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
    clean_ = 0;
    std::set<FindingKind> kinds;
    const std::string ptx = kernel(body, kShared);
    for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
      LaunchConfig config = one_warp(2048);
      config.block[0] = 64;
      const Report report = run(ptx, put_map(encode(desc_), 4096), config, {.seed = seed});
      clean_ += report.is_clean() ? 1 : 0;
      for (const Finding& finding : report.findings) {
        kinds.insert(finding.kind);
        text_ = finding.text();
      }
    }
    return kinds;
  }

  std::uint64_t clean_ = 0;  // schedules without a finding
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
  EXPECT_NE(text_.find("no fence.proxy.async behind it"), std::string::npos) << text_;
  EXPECT_NE(text_.find("the earlier one: test: st.shared.v2.u32"), std::string::npos) << text_;
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

}  // namespace
}  // namespace emu
