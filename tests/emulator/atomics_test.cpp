// Values of atomic operations, of each type and memory, against models that are computed here.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

class AtomicsTest : public DeviceTest {
 protected:
  // What is in memory after 32 lanes have run an operation with the words behind the first as
  // operands: [%rd1], and a lane's operand in `load`.
  template <typename T>
  std::vector<T> memory_after(std::string_view body, std::vector<T> values) {
    return after<T>(body, values, 32);
  }
};

TEST_F(AtomicsTest, WholeNumbers) {
  using Fold = std::function<std::uint32_t(std::uint32_t, std::uint32_t)>;
  struct Case {
    std::string_view operation;
    std::uint32_t first;
    Fold fold;
  };
  const auto as_signed = [](std::uint32_t value) { return static_cast<std::int32_t>(value); };
  const std::vector<Case> cases = {
      {"add.u32", 5, std::plus<>{}},
      {"add.s32", 0x7FFFFFFF, std::plus<>{}},
      {"min.s32", 5, [&](auto a, auto b) { return as_signed(a) < as_signed(b) ? a : b; }},
      {"max.s32", 0x80000000, [&](auto a, auto b) { return as_signed(a) > as_signed(b) ? a : b; }},
      {"min.u32", 0xFFFFFFFF, [](auto a, auto b) { return std::min(a, b); }},
      {"max.u32", 5, [](auto a, auto b) { return std::max(a, b); }},
      {"and.b32", 0xFFFFFFFF, std::bit_and<>{}},
      {"or.b32", 5, std::bit_or<>{}},
      {"xor.b32", 5, std::bit_xor<>{}},
  };
  std::vector<std::uint32_t> operands = {0};
  for (std::uint32_t i = 1; i <= 32; ++i) {
    operands.push_back(i * 2654435761U ^ (i % 3 == 0 ? 0x80000000U : 0));
  }
  for (const auto& [operation, first, fold] : cases) {
    std::uint32_t wanted = first;
    for (std::size_t i = 1; i < operands.size(); ++i) {
      wanted = fold(wanted, operands[i]);
    }
    operands[0] = first;
    for (const std::string_view memory : {".global", ""}) {
      const std::string op = fmt::format("{}.{}", memory, operation);
      const std::string load = "ld.global.u32 %r2, [%rd3+4];";
      EXPECT_EQ(memory_after(load + "red" + op + " [%rd1], %r2;", operands)[0], wanted) << op;
      EXPECT_EQ(memory_after(load + "atom" + op + " %r3, [%rd1], %r2;", operands)[0], wanted) << op;
    }
  }
}

TEST_F(AtomicsTest, CountersWrap) {
  const std::vector<std::uint32_t> zero(32, 0);
  EXPECT_EQ(after<std::uint32_t>("atom.global.inc.u32 %r2, [%rd1], 9;", zero, 32)[0], 32U % 10);
  EXPECT_EQ(after<std::uint32_t>("atom.global.dec.u32 %r2, [%rd1], 9;", zero, 32)[0], 8U);
  std::vector<std::uint32_t> large(32, 0);
  large[0] = 77;
  EXPECT_EQ(after<std::uint32_t>("atom.global.inc.u32 %r2, [%rd1], 9;", large, 1)[0], 0U);
  EXPECT_EQ(after<std::uint32_t>("atom.global.dec.u32 %r2, [%rd1], 9;", large, 1)[0], 9U);
}

TEST_F(AtomicsTest, EveryLaneGetsTheValueBefore) {
  std::vector<std::uint32_t> values(33, 0);
  auto result = after<std::uint32_t>(
      "atom.global.add.u32 %r2, [%rd1], 1; add.s64 %rd4, %rd3, 4; st.global.u32 [%rd4], %r2;",
      values, 32);
  EXPECT_EQ(result[0], 32U);
  std::sort(result.begin() + 1, result.end());
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i + 1], i);
  }
}

TEST_F(AtomicsTest, SwapsOfAllSizes) {
  const std::vector<std::uint64_t> values = {0x1122334455667788, 2, 3, 4};
  const auto wide = after<std::uint64_t>(
      "mov.b64 %rd5, 0x1122334455667788; atom.global.cas.b64 %rd6, [%rd1], %rd5, 7;"
      "atom.global.exch.b64 %rd7, [%rd1+16], 8; st.global.u64 [%rd1+8], %rd6;",
      values, 1);
  EXPECT_EQ(wide, (std::vector<std::uint64_t>{7, 0x1122334455667788, 8, 4}));
  const auto narrow = after<std::uint64_t>(
      "mov.b16 %rs1, 0x7788; mov.b16 %rs2, 1; atom.global.cas.b16 %rs3, [%rd1], %rs1, %rs2;"
      "atom.global.cas.b16 %rs4, [%rd1+2], %rs1, %rs2; atom.global.exch.b16 %rs5, [%rd1+6], %rs2;"
      "st.global.u16 [%rd1+8], %rs4;",
      values, 1);
  EXPECT_EQ(narrow, (std::vector<std::uint64_t>{0x0001334455660001, 0x5566, 3, 4}));
}

TEST_F(AtomicsTest, Floats) {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  const std::vector<std::uint32_t> values = {
      bits(0.5F), bits(0x1p-140F), bits(INFINITY), 0x7FC00001, 0x3C003C00, 0x3F803F80, 0, 0};
  const auto result = after<std::uint32_t>(
      "mov.b32 %f1, 0f3FC00000; mov.b32 %f2, 0f00000001; mov.b32 %f3, 0fFF800000;"
      "red.global.add.f32 [%rd1], %f1; red.global.add.f32 [%rd1+4], %f2;"
      "red.global.add.f32 [%rd1+8], %f3; red.global.add.f32 [%rd1+12], %f1;"
      "mov.b32 %r2, 0x40004200; red.global.add.noftz.f16x2 [%rd1+16], %r2;"
      "mov.b32 %r3, 0x40004040; red.global.add.noftz.bf16x2 [%rd1+20], %r3;"
      "mov.b16 %rs1, 0x4200; red.global.add.noftz.f16 [%rd1+24], %rs1;",
      values, 1);
  EXPECT_EQ(result[0], bits(2));
  EXPECT_EQ(result[1], 0U);  // subnormal numbers are flushed in global memory
  EXPECT_EQ(result[2], 0x7FFFFFFFU);
  EXPECT_EQ(result[3], 0x7FFFFFFFU);
  EXPECT_EQ(result[4], 0x42004400U);  // 1 + 2, 1 + 3
  EXPECT_EQ(result[5], 0x40404080U);
  EXPECT_EQ(result[6], 0x4200U);
  const auto shared = after<std::uint32_t>(
      "mov.u32 %r2, cell; mov.b32 %f1, 0f00000001; st.shared.f32 [%r2], %f1;"
      "atom.shared.add.f32 %f2, [%r2], %f1; ld.shared.f32 %f3, [%r2]; st.global.f32 [%rd1], %f3;",
      values, 1, ".shared .align 4 .f32 cell;");
  EXPECT_EQ(shared[0], 2U);
}

TEST_F(AtomicsTest, VectorsOfFloats) {
  const auto result = after<float>(
      "mov.b32 %f1, 0f3F800000; mov.b32 %f2, 0f40000000;"
      "atom.global.add.v2.f32 {%f3, %f4}, [%rd1], {%f1, %f2};"
      "red.global.add.v4.f32 [%rd1+16], {%f1, %f2, %f1, %f2};",
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, 4);
  EXPECT_EQ(result, (std::vector<float>{5, 10, 3, 4, 9, 14, 11, 16}));
  const std::vector<std::uint16_t> halves = {0x3C00, 0x4000, 0xC000, 0x7E01, 0, 0, 0, 0};
  const auto least = after<std::uint16_t>(
      "mov.b16 %rs1, 0x3800; mov.b16 %rs2, 0x4200;"
      "red.global.min.noftz.v4.f16 [%rd1], {%rs1, %rs2, %rs1, %rs2};",
      halves, 1);
  EXPECT_EQ(least, (std::vector<std::uint16_t>{0x3800, 0x4000, 0xC000, 0x4200, 0, 0, 0, 0}));
}

TEST_F(AtomicsTest, AnUnwrittenOperandIsFound) {
  EXPECT_EQ(finding_of("atom.global.add.u32 %r2, [%rd1], %r3;", 32, "",
                       RunOptions{.check_stored_values = true}),
            FindingKind::kUninitialized);
  EXPECT_EQ(finding_of("atom.global.add.u32 %r2, [%rd1+2], 1;"), FindingKind::kMisaligned);
  EXPECT_EQ(finding_of("atom.global.add.u32 %r2, [%rd1+4096], 1;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("atom.global.add.u32 %r2, [%rd5], 1;"), FindingKind::kUninitialized);
}

}  // namespace
}  // namespace emu
