// Lanes that have parted, of which some wait for what the others do behind the place where all
// would meet: each goes on, as independent thread scheduling has it.
#include <algorithm>
#include <array>
#include <cstddef>
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

constexpr std::string_view kFunctions = R"(
.global .align 4 .u32 flag;
.global .align 4 .u32 lock;
.func meet() { bar.warp.sync -1; ret; }
.func arrive() { barrier.sync 0; ret; }
.func poll()
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
AGAIN:
  ld.acquire.gpu.global.u32 %r1, [flag];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ret;
}
)";

class WaitingLanesTest : public DeviceTest {
 protected:
  static constexpr std::uint64_t kSeeds = 10;
  static constexpr std::uint64_t kMaxSteps = 10'000;

  // The kinds found in the schedules of a body; the words that a clean one has written are kept.
  std::set<FindingKind> kinds(std::string_view body, std::uint64_t seeds = kSeeds) {
    const std::string text =
        kernel(fmt::format("  setp.lt.u32 %p1, %r1, 5;\n{}", body), kFunctions);
    return kinds_over(seeds, [&](std::uint64_t seed) {
      const std::uint64_t memory = put(std::vector<std::uint32_t>(32));
      const Report report = run(text, memory, 32, {.seed = seed, .max_steps = kMaxSteps});
      if (report.is_clean()) {
        words_ = get<std::uint32_t>(memory, 32);
      }
      return report;
    });
  }

  std::vector<std::uint32_t> words_;
};

using Kinds = std::set<FindingKind>;

// What follows needs all lanes together again.
constexpr std::string_view kTogether = R"(
  bar.warp.sync -1;
  movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r1;
  st.global.u32 [%rd3], %r9;)";

TEST_F(WaitingLanesTest, TheOthersOfACallGoOn) {
  for (const std::string_view body :
       {"@%p1 call meet; @!%p1 bar.warp.sync -1;", "@%p1 call arrive; @!%p1 barrier.sync 0;",
        "@%p1 call poll; @!%p1 st.release.gpu.global.u32 [flag], 1;"}) {
    EXPECT_EQ(kinds(fmt::format("{}{}", body, kTogether)), Kinds{}) << body << last_.text();
    // The matrix has lane 0's number in row 0, and lane 4's in row 1.
    EXPECT_EQ(words_[0], 4U << 16U) << body;
  }
}

TEST_F(WaitingLanesTest, SoDoThoseOfABranch) {
  EXPECT_EQ(kinds(fmt::format(R"(
  @!%p1 bra OTHERS;
AGAIN:
  ld.acquire.gpu.global.u32 %r2, [flag];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra AGAIN;
OTHERS:
  @!%p1 st.release.gpu.global.u32 [flag], 1;
{})",
                              kTogether)),
            Kinds{})
      << last_.text();
}

// The lane that has the lock waits behind the loop for those that do not get it.
TEST_F(WaitingLanesTest, EachLaneTakesALock) {
  EXPECT_EQ(kinds(R"(
LOCK:
  atom.acquire.gpu.global.cas.b32 %r2, [lock], 0, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra LOCK;
  ld.volatile.global.u32 %r3, [flag];
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [flag], %r3;
  atom.release.gpu.global.exch.b32 %r2, [lock], 0;
  st.global.u32 [%rd3], %r3;)",
                  3),
            Kinds{})
      << last_.text();
  std::ranges::sort(words_);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(words_[lane], lane + 1);
  }
}

// Others of the warp poll until the limit, and then as many operations more are allowed.
TEST_F(WaitingLanesTest, ThoseThatOthersPollForHaveTimeEnough) {
  const std::string text = kernel(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra TOGETHER;
AGAIN:
  ld.volatile.global.u32 %r2, [flag];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra AGAIN;
TOGETHER:
  st.volatile.global.u32 [flag], 1;)",
                                  kFunctions);
  const auto found = kinds_over(40, [&](std::uint64_t seed) {
    Device device;  // whose flag is not set yet
    return device.launch(device.load(text).front(), {.block = {32, 1, 1}},
                         std::array<std::byte, 8>{}, {.seed = seed, .max_steps = 2000});
  });
  EXPECT_EQ(found, Kinds{}) << last_.text();
}

TEST_F(WaitingLanesTest, WhatNobodyDoesIsFoundStill) {
  EXPECT_EQ(kinds("@%p1 call poll;"), Kinds{FindingKind::kNoProgress});
  // The others exit, and do not come to the barrier.
  EXPECT_EQ(kinds("@%p1 call meet;"), Kinds{FindingKind::kDivergent});
  EXPECT_EQ(kinds("@%p1 bra OUT; bar.warp.sync -1; OUT:"), Kinds{FindingKind::kDivergent});
  // An instruction of all lanes that some do not come to.
  EXPECT_EQ(kinds("@%p1 movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r1;"),
            Kinds{FindingKind::kDivergent});
}

}  // namespace
}  // namespace emu
