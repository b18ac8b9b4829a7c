// Small kernels, written as PTX, run in the emulator: what they compute, and what it finds wrong
// with them.
#include "fovea_emulator/device.hpp"

#include <array>
#include <bit>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

TEST_F(DeviceTest, ComputesInEachLane) {
  std::vector<std::uint32_t> values(64);
  for (std::uint32_t i = 0; i < 64; ++i) {
    values[i] = i * 2654435761U;
  }
  const auto found = after<std::uint32_t>(R"(
  ld.global.u32 %r2, [%rd3];
  mad.lo.s32 %r3, %r2, 7, 3;
  shr.u32 %r4, %r2, 5;
  xor.b32 %r5, %r3, %r4;
  st.global.u32 [%rd3], %r5;)",
                                          values, 64);
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(found[i], (values[i] * 7 + 3) ^ (values[i] >> 5U));
  }
}

// Halves: 1 and -2; a NaN in one half decides max.NaN alone.
TEST_F(DeviceTest, MaximaOfPairsKeepNansWhereTheySay) {
  const auto found = after<std::uint32_t>(R"(
  ld.global.u32 %r2, [%rd1];
  ld.global.u32 %r3, [%rd1+4];
  max.f16x2 %r4, %r2, %r3;
  max.NaN.f16x2 %r5, %r2, %r3;
  min.NaN.bf16x2 %r6, %r2, %r3;
  st.global.u32 [%rd1+8], %r4;
  st.global.u32 [%rd1+12], %r5;
  st.global.u32 [%rd1+16], %r6;)",
                                          {0x3C00'7E00, 0xC000'C000, 0, 0, 0}, 1);
  EXPECT_EQ(found[2], 0x3C00'C000U);
  EXPECT_EQ(found[3], 0x3C00'7FFFU);
  EXPECT_EQ(found[4], 0xC000'C000U);  // 0x7E00 is a number of bfloat16
}

// 64 threads count into 4 cells, each from all that came before it; then into one without a barrier
// before the others read it.
TEST_F(DeviceTest, AtomicOperationsCount) {
  constexpr std::string_view kCells = ".shared .align 16 .b8 cells[16];";
  const auto body = [](std::string_view barrier) {
    return fmt::format(R"(
  and.b32 %r2, %r1, 3;
  shl.b32 %r3, %r2, 2;
  mov.u32 %r4, cells;
  add.u32 %r4, %r4, %r3;
  setp.lt.u32 %p1, %r1, 4;
  @%p1 st.shared.u32 [%r4], 100;
  bar.sync 0;
  atom.shared.add.u32 %r5, [%r4], 1;
  red.shared.max.s32 [%r4], 5;
  st.global.u32 [%rd3], %r5;
  {}
  ld.shared.u32 %r6, [%r4];
  st.global.u32 [%rd3+256], %r6;)",
                       barrier);
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t memory = put(std::vector<std::uint32_t>(128, 1));
    const Report report = run(kernel(body("bar.sync 0;"), kCells), memory, 64, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    const auto found = get<std::uint32_t>(memory, 128);
    for (std::uint32_t cell = 0; cell < 4; ++cell) {
      std::set<std::uint32_t> before;
      for (std::uint32_t i = cell; i < 64; i += 4) {
        before.insert(found[i]);
      }
      EXPECT_EQ(before.size(), 16U);
      EXPECT_EQ(*before.begin(), 100U);
      EXPECT_EQ(*before.rbegin(), 115U);
      EXPECT_EQ(found[64 + cell], 116U);
    }
    const Report racing = run(kernel(body(""), kCells), memory, 64, {.seed = seed});
    ASSERT_EQ(racing.findings.size(), 1U) << "seed " << seed;
    EXPECT_EQ(racing.findings.front().kind, FindingKind::kRace);
  }
}

// Each lane goes round as often as its number says; they meet again, or the shuffle would not run.
TEST_F(DeviceTest, LanesThatPartMeetAgain) {
  const auto found = after<std::uint32_t>(R"(
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
LOOP:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra DONE;
  add.u32 %r2, %r2, %r3;
  add.u32 %r3, %r3, 1;
  and.b32 %r4, %r3, 1;
  setp.eq.s32 %p2, %r4, 0;
  @%p2 bra LOOP;
  add.u32 %r2, %r2, 100;
  bra LOOP;
DONE:
  shfl.sync.idx.b32 %r5, %r2, 31, 31, -1;
  add.u32 %r2, %r2, %r5;
  st.global.u32 [%rd3], %r2;)",
                                          std::vector<std::uint32_t>(32), 32);
  const auto own = [](std::uint32_t lane) {
    return lane * (lane - 1) / 2 * (lane > 0 ? 1 : 0) + (lane + 1) / 2 * 100;
  };
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(found[lane], own(lane) + own(31)) << lane;
  }
}

// Numbers turned round through shared memory, on schedules of 20 seeds.
constexpr std::string_view kReverse = R"(
  mov.u32 %r2, buffer;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  ld.global.u32 %r5, [%rd3];
  st.shared.u32 [%r4], %r5;
  {}
  mov.u32 %r6, %ntid.x;
  sub.u32 %r7, %r6, %r1;
  shl.b32 %r8, %r7, 2;
  add.u32 %r9, %r2, %r8;
  ld.shared.u32 %r10, [%r9+-4];
  st.global.u32 [%rd3], %r10;)";
constexpr std::string_view kBuffer = ".shared .align 4 .b8 buffer[512];";

std::string reverse(std::string_view barrier) {
  std::string text(kReverse);
  return text.replace(text.find("{}"), 2, barrier);
}

// The compiler may put the block that ends the kernel before others.
TEST_F(DeviceTest, TheEndNeedNotBeLast) {
  const std::uint64_t address = put(std::vector<std::uint32_t>(32, 1));
  std::string text = kernel(
      "setp.lt.u32 %p1, %r1, 8; @%p1 bra FEW; END: st.global.u32 [%rd3], %r1; ret;"
      "FEW: add.u32 %r1, %r1, 100; bra.uni END;");
  text.erase(text.rfind("ret;"), 4);
  EXPECT_TRUE(run(text, address, 32).is_clean());
  const auto found = get<std::uint32_t>(address, 32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(found[i], i < 8 ? i + 100 : i);
  }
  text.insert(text.rfind('}'), "@%p1 bra END;");
  EXPECT_THROW(device_.load(text), std::runtime_error);
}

// As machine code has it: the low half of a generic address is the one in shared memory.
TEST_F(DeviceTest, GenericAddressesServeForSharedMemory) {
  EXPECT_EQ(
      after<std::uint32_t>("mov.u64 %rd5, cell; cvta.shared.u64 %rd5, %rd5;"
                           "mul.wide.u32 %rd6, %r1, 4; add.u64 %rd5, %rd5, %rd6;"
                           "st.shared.u32 [%rd5], %r1; ld.shared.u32 %r4, [%rd5];"
                           "st.global.u32 [%rd3], %r4;",
                           std::vector<std::uint32_t>(4, 7), 4, ".shared .align 16 .b8 cell[16];"),
      (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST_F(DeviceTest, AKernelCanStopItself) {
  for (const std::string_view instruction : {"trap;", "brkpt;"}) {
    EXPECT_EQ(finding_of(instruction), FindingKind::kTrap);
    EXPECT_EQ(after<std::uint32_t>(fmt::format("setp.gt.u32 %p1, %r1, 8; @%p1 {}", instruction),
                                   {1, 2}, 2),
              (std::vector<std::uint32_t>{1, 2}));
  }
}

TEST_F(DeviceTest, BarriersLetNobodyBy) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::uint32_t> values(128);
    for (std::uint32_t i = 0; i < 128; ++i) {
      values[i] = i + 1;
    }
    const std::uint64_t address = put(values);
    const Report report =
        run(kernel(reverse("bar.sync 0;"), kBuffer), address, 128, {.seed = seed});
    ASSERT_TRUE(report.is_clean()) << report.findings.front().text();
    const auto found = get<std::uint32_t>(address, 128);
    for (std::uint32_t i = 0; i < 128; ++i) {
      EXPECT_EQ(found[i], 128 - i);
    }
  }
}

// Without the barrier, most schedules read what is not written yet.
TEST_F(DeviceTest, AMissingBarrierShows) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t address = put(std::vector<std::uint32_t>(128, 7));
    run(kernel(reverse(""), kBuffer), address, 128, {.seed = seed, .check_races = false});
    wrong += get<std::uint32_t>(address, 128) == std::vector<std::uint32_t>(128, 7) ? 0 : 1;
  }
  EXPECT_GE(wrong, 15);
}

TEST_F(DeviceTest, FindsWhatIsWrong) {
  EXPECT_EQ(finding_of("st.global.u32 [%rd3+4], %r1;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("st.global.u32 [%rd3+-4], %r1;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("st.shared.u32 [1020], %r1;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("ld.global.u32 %r2, [%rd1+2];"), FindingKind::kMisaligned);
  EXPECT_EQ(finding_of("ld.global.v2.u32 {%r2, %r3}, [%rd1+4];"), FindingKind::kMisaligned);
  EXPECT_EQ(finding_of("st.global.u32 [%rd9], %r1;"), FindingKind::kUninitialized);
  EXPECT_EQ(finding_of("setp.eq.u32 %p1, %r9, 0; @%p1 bra OUT; OUT:"), FindingKind::kUninitialized);
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; bar.sync 0; OUT:"),
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 7; @%p1 bra OUT; "
                       "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; OUT:"),
            FindingKind::kDivergent);
  EXPECT_EQ(finding_of("bar.sync 1, 40;"), FindingKind::kBarrierMisuse);
  EXPECT_EQ(finding_of("bar.sync 16;"), FindingKind::kIllegalOperand);
  // The second warp waits at another barrier.
  EXPECT_EQ(finding_of("shr.u32 %r2, %r1, 5; bar.sync %r2;", 64), FindingKind::kDeadlock);
  EXPECT_EQ(finding_of("LOOP: bra LOOP;", 32, "", {.max_steps = 1000}), FindingKind::kNoProgress);
}

TEST_F(DeviceTest, TheSameSeedRunsTheSameWay) {
  const auto found = [&](std::uint64_t seed) {
    const std::uint64_t address = put(std::vector<std::uint32_t>(128, 7));
    run(kernel(reverse(""), kBuffer), address, 128, {.seed = seed, .check_races = false});
    return get<std::uint32_t>(address, 128);
  };
  std::set<std::vector<std::uint32_t>> all;
  for (std::uint64_t seed = 3; seed < 13; ++seed) {
    EXPECT_EQ(found(seed), found(seed));
    all.insert(found(seed));
  }
  EXPECT_GT(all.size(), 1U);
}

// What is copied is there after the wait, and not before it.
TEST_F(DeviceTest, CopiesAreThereAfterTheWait) {
  const auto body = [](std::string_view wait) {
    return fmt::format(R"(
  mov.u32 %r2, buffer;
  shl.b32 %r3, %r1, 4;
  add.u32 %r4, %r2, %r3;
  mul.wide.u32 %rd5, %r1, 16;
  add.s64 %rd6, %rd1, %rd5;
  cp.async.cg.shared.global [%r4], [%rd6], 16, 12;
  cp.async.commit_group;
  {}
  ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r4];
  add.u32 %r9, %r5, %r6;
  add.u32 %r9, %r9, %r7;
  add.u32 %r9, %r9, %r8;
  bar.sync 0;
  st.global.u32 [%rd3], %r9;
  setp.eq.u32 %p1, %r9, 1;
  @%p1 bra OUT;
  st.global.u32 [%rd3], %r9;
OUT:)",
                       wait);
  };
  std::vector<std::uint32_t> values(32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    values[i] = 1U << (i % 4) << 4 * (i / 4);
  }
  const auto found = after<std::uint32_t>(body("cp.async.wait_group 0;"), values, 8, kBuffer);
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(found[i], 7U << 4 * i);
  }
  EXPECT_EQ(finding_of(body("cp.async.wait_group 1;"), 8, kBuffer), FindingKind::kRace);
  EXPECT_EQ(finding_of(body("cp.async.wait_group 1;"), 8, kBuffer, {.check_races = false}),
            FindingKind::kUninitialized);
}

TEST_F(DeviceTest, MultipliesMatrices) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> words(32 * 6);
  std::array<std::array<float, 16>, 16> a{};
  std::array<std::array<float, 16>, 8> b{};
  const auto small = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4; };
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value) >> 16U; };
  for (auto& row : a) {
    for (float& value : row) {
      value = small();
    }
  }
  for (auto& row : b) {
    for (float& value : row) {
      value = small();
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto& row = a.at(lane / 4 + i % 2 * 8);
      const std::size_t k = lane % 4 * 2 + i / 2 * 8;
      words[lane * 6 + i] = bits(row.at(k)) | bits(row.at(k + 1)) << 16U;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t k = lane % 4 * 2 + i * 8;
      words[lane * 6 + 4 + i] = bits(b.at(lane / 4).at(k)) | bits(b.at(lane / 4).at(k + 1)) << 16U;
    }
  }
  const auto found = after<std::uint32_t>(R"(
  mul.wide.u32 %rd4, %r1, 24;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.v2.u32 {%r2, %r3}, [%rd5];
  ld.global.v2.u32 {%r4, %r5}, [%rd5+8];
  ld.global.v2.u32 {%r6, %r7}, [%rd5+16];
  mov.f32 %f1, 0f3F800000;
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f1, %f1, %f1, %f1};
  st.global.v2.f32 [%rd5], {%f2, %f3};
  st.global.v2.f32 [%rd5+8], {%f4, %f5};)",
                                          words, 32);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      float want = 1;
      for (std::size_t k = 0; k < 16; ++k) {
        want += a.at(lane / 4 + i / 2 * 8).at(k) * b.at(lane % 4 * 2 + i % 2).at(k);
      }
      EXPECT_EQ(std::bit_cast<float>(found[lane * 6 + i]), want);
    }
  }
}

TEST_F(DeviceTest, RefusesWhatItDoesNotKnow) {
  const auto message = [&](const std::string& ptx) {
    try {
      device_.load(ptx);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(kernel("add.rna.f32 %f1, %f2, %f3;")),
            "line 16: add.rna.f32: unsupported modifier .rna");
  EXPECT_EQ(message(kernel("frobnicate.u32 %r1;")),
            "line 16: frobnicate.u32: unsupported instruction");
  EXPECT_EQ(message(kernel("add.u32 %r1, %nobody, 1;")),
            "line 16: add.u32: unsupported special register %nobody");
  EXPECT_EQ(message(kernel("bra NOWHERE;")),
            "line 16: there is no register, variable or label 'NOWHERE'");
  EXPECT_EQ(message(kernel("add.u64 %r1, %r2, 1;")),
            "line 16: add.u64: expected a register of 64 bits for the result");
  EXPECT_NE(message("hello"), "");
}

}  // namespace
}  // namespace emu
