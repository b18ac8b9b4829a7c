// What is found wrong with kernels that multiply matrices with wgmma, and what is not.
#include <array>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "fovea_emulator/error.hpp"
#include "tests/emulator/wgmma_fixture.hpp"

namespace emu::wgmma {
namespace {

constexpr std::string_view kFence = "wgmma.fence.sync.aligned;\n";
constexpr std::string_view kCommit = "wgmma.commit_group.sync.aligned;\n";

std::string product(unsigned step, bool has_registers = false, unsigned columns = 64,
                    std::string_view scale = "1") {
  return Form{.columns = columns, .is_a_in_registers = has_registers}.text(step, scale) + "\n";
}
std::string wait(unsigned groups) {
  return fmt::format("wgmma.wait_group.sync.aligned {};\n", groups);
}
std::string text(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts) {
    whole += part;
  }
  return whole;
}

class WgmmaFindingsTest : public KernelTest {
 protected:
  // The finding of a body with two steps' descriptors and registers; both of bf16, K-major, with
  // the swizzle of 128 bytes, A at 0 and B at 8192 of the buffer.
  Finding finding_of(const std::string& body, const RunOptions& options = {},
                     bool loads_results = true, bool fills = true, unsigned threads = kThreads,
                     std::array<std::uint64_t, 2> changes = {}) {
    const Layout layout{.steps = 2, .accumulators = 32};
    std::vector<std::byte> memory(layout.bytes());
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint64_t start = i / 2 * 32U + i % 2 * 8192U;
      const std::uint64_t descriptor =
          (start >> 4U | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U) ^ changes.at(i % 2);
      std::memcpy(&memory[8UL * i], &descriptor, 8);
    }
    const std::uint64_t address = device_.allocate(memory.size());
    device_.write(address, memory);
    const Report report =
        run(kernel_of(layout, body, loads_results, fills), address, options, threads);
    if (report.findings.size() != 1) {
      ADD_FAILURE() << report.findings.size() << " findings of " << body;
      return {};
    }
    EXPECT_GT(report.findings.front().line, 0);
    return report.findings.front();
  }
};

TEST_F(WgmmaFindingsTest, FindsAccumulatorsThatAreNotThere) {
  const auto is_found = [&](const std::string& body) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      const Finding finding = finding_of(body, {.seed = seed});
      EXPECT_EQ(finding.kind, FindingKind::kUninitialized) << body;
      EXPECT_NE(finding.message.find("wgmma"), std::string::npos) << finding.message;
    }
  };
  // The kernel stores them.
  is_found(text({kFence, product(0)}));
  is_found(text({kFence, product(0), kCommit}));
  is_found(text({kFence, product(0), kCommit, wait(1)}));
  is_found(text({kFence, product(0), wait(0)}));  // never committed
  is_found(text({kFence, product(0), kCommit, product(1), kCommit, wait(1)}));
  is_found(text({kFence, product(0), kCommit, "mov.b32 %d3, 0;", wait(0)}));
  is_found(text({kFence, product(0), kCommit, "add.u32 %r8, %d3, 1;", wait(0)}));
  // One that was never written is added to.
  EXPECT_EQ(finding_of(text({kFence, product(0), kCommit, wait(0)}), {}, false).kind,
            FindingKind::kUninitialized);
}

TEST_F(WgmmaFindingsTest, FindsRegistersOutOfOrder) {
  const auto kind = [&](const std::string& body) { return finding_of(body).kind; };
  EXPECT_EQ(kind(product(0)), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, "mov.b32 %d3, 0;", product(0)})), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, "add.u32 %a2, %a2, 1;", product(0, true)})),
            FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, product(0, true), kCommit, "add.u32 %a2, %a2, 1;", wait(0)})),
            FindingKind::kRegisterRace);
  // Between products, after the wait.
  EXPECT_EQ(kind(text({kFence, product(0), kCommit, wait(0), "add.u32 %d3, %d3, 1;", product(1)})),
            FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, product(0), kCommit, wait(0), "add.u32 %r8, %d3, 1;", product(1)})),
            FindingKind::kRegisterRace);
  // Another shape, and A from an accumulator.
  EXPECT_EQ(kind(text({kFence, product(0), product(1, false, 32)})), FindingKind::kRegisterRace);
  EXPECT_EQ(kind(text({kFence, product(0),
                       "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%a0, %a1, %a2, %a3}, "
                       "{%d0, %d1, %d2, %d3}, %rd11, 1, 1, 1, 0;"})),
            FindingKind::kRegisterRace);
}

// What the rules allow.
TEST_F(WgmmaFindingsTest, FindsNothingWrongWithOrder) {
  const Layout layout{.steps = 2, .accumulators = 32};
  std::vector<std::byte> memory(layout.bytes());
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t start = i / 2 * 32U + i % 2 * 8192U;
    const std::uint64_t descriptor = start >> 4U | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
    std::memcpy(&memory[8UL * i], &descriptor, 8);
  }
  const std::uint64_t address = device_.allocate(memory.size());
  for (const std::string& body :
       {text({"mov.b32 %d3, 0; mov.b32 %a3, 0;", kFence, product(0, true), product(1, true),
              kCommit, wait(0), "add.u32 %d3, %d3, 1;"}),
        text({kFence, product(0), kCommit, product(1), kCommit, wait(1), wait(0)}),
        text({kFence, product(0), kCommit, kFence, product(1, false, 32), kCommit, wait(0)}),
        text({kFence, product(0, true), kCommit, "add.u32 %a7, %a7, 1;", wait(0),
              "add.u32 %a2, %a2, 1;"}),
        // Reads of A do no harm, nor constants of it, which the compiler puts where it likes.
        text({"add.u32 %r8, %d3, 1;", kFence, "mov.b32 %a2, 0;", product(0, true), kCommit,
              "add.u32 %r8, %a3, 1; mov.b32 %a2, 0;", wait(0)}),
        text({kFence, product(0), kCommit, wait(0), "add.u32 %d3, %d3, 1;", kFence, product(1),
              kCommit, kCommit, wait(1)})}) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      device_.write(address, memory);
      const Report report = run(kernel_of(layout, body), address, {.seed = seed});
      EXPECT_TRUE(report.is_clean()) << body << report.findings.front().text();
    }
  }
  // Nothing reads accumulators that the product does not add to.
  const std::string first =
      text({"setp.ne.u32 %p3, %r1, %r1;", kFence, product(0, false, 64, "%p3"), kCommit, wait(0)});
  device_.write(address, memory);
  EXPECT_TRUE(run(kernel_of(layout, first, false), address, {}).is_clean());
}

// ptxas orders constants that are moved to accumulators behind the fence.
TEST_F(WgmmaFindingsTest, AccumulatorsMayBeZeroedBehindTheFenceIfAsked) {
  const std::string zeroed = text({kFence, "mov.b32 %d0, 0;\n", product(0), kCommit, wait(0)});
  EXPECT_EQ(finding_of(zeroed).kind, FindingKind::kRegisterRace);
  const Layout layout{.steps = 2, .accumulators = 32};
  const auto is_clean = [&](const std::string& body) {
    std::vector<std::byte> memory(layout.bytes());
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint64_t start = i / 2 * 32U + i % 2 * 8192U;
      const std::uint64_t descriptor = start >> 4U | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
      std::memcpy(&memory[8UL * i], &descriptor, 8);
    }
    const std::uint64_t address = device_.allocate(memory.size());
    device_.write(address, memory);
    return run(kernel_of(layout, body), address, {.check_zeroed_accumulators = false}).is_clean();
  };
  EXPECT_TRUE(is_clean(zeroed));
  EXPECT_FALSE(is_clean(text({kFence, "mov.b32 %d0, %r1;\n", product(0), kCommit, wait(0)})));
}

TEST_F(WgmmaFindingsTest, FindsWhatIsWrongWithOperands) {
  const std::string good = text({kFence, product(0), kCommit, wait(0)});
  const auto kind_with = [&](std::uint64_t a, std::uint64_t b) {
    return finding_of(good, {}, true, true, kThreads, {a, b}).kind;
  };
  EXPECT_EQ(kind_with(0, 1ULL << 53U), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(1ULL << 15U, 0), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(7, 0), FindingKind::kIllegalOperand);  // over the end of a row
  EXPECT_EQ(kind_with(0, 1ULL << 62U | 1ULL << 49U), FindingKind::kIllegalOperand);
  EXPECT_EQ(kind_with(0, 0x3FFFULL << 32U), FindingKind::kOutOfBounds);  // a huge stride
  EXPECT_EQ(kind_with(0x3000, 0), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of(good, {}, true, false).kind, FindingKind::kUninitialized);
  EXPECT_EQ(finding_of(text({"cvt.u64.u32 %rd9, %r1; add.s64 %rd11, %rd11, %rd9;", good})).kind,
            FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(text({"shr.u32 %r8, %r1, 5; mul.lo.u32 %r8, %r8, 64; cvt.u64.u32 %rd9, %r8;"
                             "add.s64 %rd11, %rd11, %rd9;",
                             good}))
                .kind,
            FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(text({"setp.lt.u32 %p2, %r1, 7;", kFence, product(0, false, 64, "%p2"),
                             kCommit, wait(0)}))
                .kind,
            FindingKind::kIllegalOperand);
}

TEST_F(WgmmaFindingsTest, FindsWarpgroupsThatAreNotWhole) {
  const std::string good = text({kFence, product(0), kCommit, wait(0)});
  EXPECT_EQ(finding_of(good, {}, true, true, 96).kind, FindingKind::kDivergent);
  EXPECT_EQ(finding_of(good, {}, true, true, 160).kind, FindingKind::kDivergent);
  EXPECT_EQ(finding_of(text({"setp.ge.u32 %p2, %r1, 96; @%p2 exit;", good})).kind,
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of(text({"setp.eq.u32 %p2, %r1, 5; @%p2 bra OVER;", kFence, "OVER:"})).kind,
            FindingKind::kDivergent);
  // One warp has a fence more.
  EXPECT_EQ(finding_of(text({kFence, "setp.lt.u32 %p2, %r1, 32; @%p2 bra OVER;", kFence,
                             "OVER:", product(0), kCommit, wait(0)}))
                .kind,
            FindingKind::kDivergent);
  // One warp waits elsewhere: the others' products never begin.
  EXPECT_EQ(
      finding_of(text({"setp.lt.u32 %p2, %r1, 32; @!%p2 bra OVER; bar.sync 1; OVER:", good})).kind,
      FindingKind::kDeadlock);
}

TEST_F(WgmmaFindingsTest, FindsABlockThatEndsTooEarly) {
  const Finding finding =
      finding_of(text({kFence, product(0), kCommit, "exit;"}), {.policy = Policy::kLazy});
  EXPECT_EQ(finding.kind, FindingKind::kLifetime);
}

// Operands are read late: what is written over them too early shows on some schedules.
TEST_F(WgmmaFindingsTest, ReadsItsOperandsLate) {
  const Layout layout{.steps = 1, .accumulators = 32};
  std::vector<std::byte> memory(layout.bytes());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t descriptor = i * 512 | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
    std::memcpy(&memory[8 * i], &descriptor, 8);
  }
  const std::uint16_t one = 0x3F80;
  for (std::size_t i = 0; i < kSharedBytes; i += 2) {
    std::memcpy(&memory[layout.image() + i], &one, 2);
  }
  const std::uint64_t address = device_.allocate(memory.size());
  const auto wrong_of = [&](std::string_view before, std::string_view after) {
    const std::string body = text({kFence, product(0), kCommit, before,
                                   "bar.sync 0; mad.lo.u32 %r8, %r1, 64, %r2; "
                                   "mov.u32 %r9, 0; st.shared.u32 [%r8+8192], %r9;",
                                   after});
    int wrong = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      device_.write(address, memory);
      EXPECT_TRUE(
          run(kernel_of(layout, body), address, {.seed = seed, .check_races = false}).is_clean());
      std::vector<float> found(std::size_t{kThreads} * 32);
      device_.read(std::as_writable_bytes(std::span(found)), address + layout.results());
      wrong += found == std::vector<float>(found.size(), 16.0F) ? 0 : 1;
    }
    return wrong;
  };
  EXPECT_EQ(wrong_of(wait(0), ""), 0);
  EXPECT_GE(wrong_of("", wait(0)), 6);
}

// Groups are those of the warpgroup: one warp that has waited may give back what all four read.
TEST_F(WgmmaFindingsTest, AnyWarpWaitsForAllRows) {
  const Layout layout{.steps = 1, .accumulators = 32};
  std::vector<std::byte> memory(layout.bytes());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t descriptor = i * 512 | 1ULL << 16U | 64ULL << 32U | 1ULL << 62U;
    std::memcpy(&memory[8 * i], &descriptor, 8);
  }
  const std::uint16_t one = 0x3F80;
  for (std::size_t i = 0; i < kSharedBytes; i += 2) {
    std::memcpy(&memory[layout.image() + i], &one, 2);
  }
  const std::uint64_t address = device_.allocate(memory.size());
  const auto body = [](std::string_view before, std::string_view after) {
    return text({kFence, product(0), kCommit, before,
                 "setp.lt.u32 %p2, %r1, 32; mad.lo.u32 %r8, %r1, 256, %r2; mov.u32 %r9, 0;"
                 "@%p2 st.shared.u32 [%r8+8192], %r9;",
                 after});
  };
  const std::vector<float> expected(std::size_t{kThreads} * 32, 16.0F);
  for (unsigned seed = 0; seed < 20; ++seed) {
    device_.write(address, memory);
    const Report report = run(kernel_of(layout, body(wait(0), "")), address, {.seed = seed});
    EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
    std::vector<float> found(expected.size());
    device_.read(std::as_writable_bytes(std::span(found)), address + layout.results());
    EXPECT_EQ(found, expected) << "seed " << seed;
    device_.write(address, memory);
    const Report wrong = run(kernel_of(layout, body("", wait(0))), address, {.seed = seed});
    ASSERT_EQ(wrong.findings.size(), 1U);
    EXPECT_EQ(wrong.findings.front().kind, FindingKind::kRace);
  }
}

TEST_F(WgmmaFindingsTest, RefusesWhatItDoesNotKnow) {
  const auto message = [&](const std::string& body) {
    try {
      device_.load(kernel_of({}, body));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto refuses = [&](std::string_view instruction, std::string_view why) {
    const std::string found = message(std::string(instruction));
    EXPECT_NE(found.find(why), std::string::npos) << instruction << ": " << found;
  };
  constexpr std::string_view kDescriptors = "{%d0, %d1, %d2, %d3}, %rd10, %rd11, 1";
  const auto mma = [&](std::string_view modifiers, std::string_view rest) {
    return fmt::format("wgmma.mma_async.sync.aligned.{} {}{};", modifiers, kDescriptors, rest);
  };
  EXPECT_EQ(message(mma("m64n8k32.s32.s8.s8", "")), "");
  refuses(mma("m64n8k16.satfinite.f32.bf16.bf16", ", 1, 1, 0, 0"),
          "unsupported modifier .satfinite");
  refuses(mma("m64n8k32.s32.s8.s8", ", 1, 1"), "got 6");
  refuses(mma("m64n8k16.s32.s8.s8", ""), "expected .m64n8k32");
  refuses(mma("m64n264k16.f32.bf16.bf16", ", 1, 1, 0, 0"), "expected .m64n8k16");
  refuses(mma("m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0"), "must have 8 registers");
  refuses(mma("m64n8k16.f32.bf16.f16", ", 1, 1, 0, 0"), "unsupported product");
  refuses(mma("m64n8k16.f16.bf16.bf16", ", 1, 1, 0, 0"), "unsupported product");
  refuses(mma("m64n8k16.f16.f16.f16", ", 1, 1, 0, 0"), "must have 2 registers");
  refuses(mma("m64n8k32.f32.e4m3.s8", ", 1, 1"), "unsupported product");
  refuses(mma("m64n8k8.f32.tf32.tf32", ", 1, 1"), "");
  refuses(mma("m64n8k16.f32.bf16.bf16", ", 0, 1, 0, 0"), "must be 1 or -1");
  refuses(mma("m64n8k16.f32.bf16.bf16", ", 1, 1, 2, 0"), "must be 0 or 1");
  refuses(fmt::format("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {}, %rd10, %rd11, 1;",
                      list("%d", 20)),
          "unsupported shape");
  refuses("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%d0, %d1, %d2, %d0}, %rd10, %rd11, 1;",
          "is used twice as a destination");
  refuses("wgmma.fence.aligned;", "expected .sync");
  refuses("wgmma.wait_group.sync.aligned;", "expected 1 operand, got 0");
  refuses("wgmma.frobnicate.sync.aligned;", "expected .wait_group");
}

}  // namespace
}  // namespace emu::wgmma
