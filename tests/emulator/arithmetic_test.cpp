// Scalar arithmetic in the emulator: what it refuses, what of it counts as initialised, and sums of
// formats that differ. The captures' models say what it computes.
#include <bit>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

class ArithmeticTest : public DeviceTest {
 protected:
  /// The message about the body's first instruction, without its line; empty if it runs.
  std::string refusal(std::string_view body) {
    try {
      run(kernel(body), put(std::vector<std::uint32_t>(32, 1)), 32);
    } catch (const Error& error) {
      const std::string message = error.what();
      return message.substr(message.find(": ", message.find(": ") + 1) + 2);
    }
    return "";
  }
};

TEST_F(ArithmeticTest, RefusesModifiersThatPtxDoesNotHave) {
  EXPECT_EQ(refusal("add.rz.f16x2 %r2, %r3, %r4;"), "unsupported rounding");
  EXPECT_EQ(refusal("add.sat.f64 %rd2, %rd3, %rd4;"), "unsupported modifier .sat");
  EXPECT_EQ(refusal("add.ftz.bf16x2 %r2, %r3, %r4;"), "unsupported modifier .ftz");
  EXPECT_EQ(refusal("add.relu.f16x2 %r2, %r3, %r4;"), "unsupported modifier .relu");
  EXPECT_EQ(refusal("fma.rn.oob.f16x2 %r2, %r3, %r4, %r5;"), "unsupported modifier .oob");
  EXPECT_EQ(refusal("fma.f32 %f2, %f3, %f4, %f5;"), "expected one of .rn, .rz, .rm, .rp");
  EXPECT_EQ(refusal("div.f64 %rd2, %rd3, %rd4;"), "expected one of .rn, .rz, .rm, .rp");
  EXPECT_EQ(refusal("sqrt.rn.f16 %rs1, %rs2;"), "unsupported type");
  EXPECT_EQ(refusal("min.xorsign.f32 %f2, %f3, %f4;"), "expected .abs behind .xorsign");
  EXPECT_EQ(refusal("add.sat.u32 %r2, %r3, %r4;"), "expected .s32");
  EXPECT_EQ(refusal("min.relu.u32 %r2, %r3, %r4;"), "unsupported modifier .relu");
  EXPECT_EQ(refusal("add.cc.u16 %rs1, %rs2, %rs3;"), "unsupported type");
  EXPECT_EQ(refusal("mad.wide.cc.u32 %rd2, %r2, %r3, %rd4;"), "unsupported modifier .cc");
  EXPECT_EQ(refusal("setp.lo.s32 %p1, %r2, %r3;"), "unsupported comparison of this type");
  EXPECT_EQ(refusal("setp.equ.u32 %p1, %r2, %r3;"), "unsupported comparison of this type");
  EXPECT_EQ(refusal("setp.lt.f16x2 %p1, %r2, %r3;"), "expected two predicates for the result");
  EXPECT_EQ(refusal("setp.eq.u16x2 %p1|%p2, %r2, %r3;"), "unsupported type");
  EXPECT_EQ(refusal("set.lt.f64.f32 %rd2, %f2, %f3;"), "unsupported type of the result");
  EXPECT_EQ(refusal("prmt.b32.abc %r2, %r3, %r4, %r5;"), "unsupported modifier .abc");
  EXPECT_EQ(refusal("lop3.b32 %r2, %r3, %r4, %r5, 256;"), "expected an integer from 0 to 255");
}

TEST_F(ArithmeticTest, RefusesConversionsThatPtxDoesNotHave) {
  EXPECT_EQ(refusal("cvt.f32.f64 %f2, %rd2;"), "expected a rounding modifier");
  EXPECT_EQ(refusal("cvt.s32.f32 %r2, %f2;"), "expected a rounding modifier");
  EXPECT_EQ(refusal("cvt.pred.u32 %p1, %r2;"), "unsupported type");
  EXPECT_EQ(refusal("cvt.u32.pred %r2, %p1;"), "unsupported type");
  EXPECT_EQ(refusal("cvt.f32.s32 %f2, %r2;"), "expected a rounding modifier");
  EXPECT_EQ(refusal("cvt.rna.f32.f64 %f2, %rd2;"), "unsupported rounding");
  EXPECT_EQ(refusal("cvt.rp.tf32.f32 %r2, %f2;"), "unsupported rounding");
  constexpr std::string_view kNeedsNearest = ".relu and .satfinite need .rn or .rz";
  EXPECT_EQ(refusal("cvt.rm.relu.f16.f32 %rs1, %f2;"), kNeedsNearest);
  EXPECT_EQ(refusal("cvt.rp.satfinite.bf16.f32 %rs1, %f2;"), kNeedsNearest);
  EXPECT_EQ(refusal("cvt.rna.relu.tf32.f32 %r2, %f2;"), kNeedsNearest);
  EXPECT_EQ(refusal("cvt.rni.s16.bf16 %rs1, %rs2;"), "unsupported conversion");
  EXPECT_EQ(refusal("cvt.rzi.u8.bf16 %rs1, %rs2;"), "unsupported conversion");
  EXPECT_EQ(refusal("cvt.rn.bf16.s8 %rs1, %rs2;"), "unsupported conversion");
  EXPECT_EQ(refusal("cvt.sat.f32.bf16 %f2, %rs2;"), "unsupported modifier .sat");
  EXPECT_EQ(refusal("cvt.rni.f32.f64 %f2, %rd2;"), "expected a rounding modifier");
  EXPECT_EQ(refusal("cvt.rs.f16x2.f32 %r2, %f2, %f3;"), "expected .rn");
  EXPECT_EQ(refusal("cvt.rn.e4m3x2.f32 %rs1, %f2, %f3;"), "expected .satfinite");
  EXPECT_EQ(refusal("cvt.rn.satfinite.ue8m0x2.f32 %rs1, %f2, %f3;"),
            "unsupported conversion or rounding");
  EXPECT_EQ(refusal("cvt.pack.sat.s16.u32 %r2, %r3, %r4;"), "expected .s32");
}

// Only video instructions take parts of registers, and only vmad negates them.
TEST_F(ArithmeticTest, RefusesPartsOfRegistersElsewhere) {
  const std::string refused =
      "this instruction takes no minus sign before a register and no part of one";
  EXPECT_EQ(refusal("add.u32 %r2, %r3.h0, %r4;"), refused);
  EXPECT_EQ(refusal("add.u32 %r2.b1, %r3, %r4;"), refused);
  EXPECT_EQ(refusal("add.s32 %r2, -%r3, %r4;"), refused);
  EXPECT_EQ(refusal("ld.global.u32 %r2, [%rd1.b0];"), refused);
  EXPECT_EQ(refusal("mov.u32 %r2, %tid.x+4;"), "nothing can be added to %tid.x here");
  EXPECT_EQ(refusal("mov.u32 %r2+4, %r1;"), "nothing can be added to %r2 here");
  EXPECT_EQ(refusal("vadd.s32.s32.s32 %r2, -%r3, %r4;"), "no operand may be negated");
  EXPECT_EQ(refusal("vadd.s32.s32.s32 %r2, %r3.h2, %r4;"), "unsupported part of a register");
  EXPECT_EQ(refusal("vadd.s32.s32.s32.add %r2.h1, %r3, %r4, %r5;"),
            "a part of the result cannot be merged and computed further");
  EXPECT_EQ(refusal("vadd4.s32.s32.s32 %r2.b12, %r3, %r4, %r5;"),
            "unsupported parts of a register");
  EXPECT_EQ(refusal("vadd4.s32.s32.s32 %r2, %r3.b3218, %r4, %r5;"),
            "unsupported parts of a register");
  EXPECT_EQ(refusal("vmad.s32.s32.s32.po %r2, -%r3, %r4, %r5;"), "too many operands are negated");
  EXPECT_EQ(refusal("vset.s32.s32.lt.sat %r2, %r3, %r4;"), "unsupported modifier .sat");
}

// A carry is initialised once an instruction has written it.
TEST_F(ArithmeticTest, ACarryThatNothingHasWrittenIsUninitialized) {
  constexpr std::string_view kSum = "addc.u32 %r2, %r1, %r1;\n st.global.u32 [%rd3], %r2;";
  EXPECT_EQ(finding_of(kSum, 32, "", {.check_stored_values = true}), FindingKind::kUninitialized);
  const auto found = after<std::uint32_t>(fmt::format("sub.cc.u32 %r3, %r1, 16;\n{}", kSum),
                                          std::vector<std::uint32_t>(32, 0), 32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(found[i], 2 * i + (i >= 16 ? 1 : 0));
  }
}

// 1 + 2^-24 in each direction, from bfloat16 and binary32; and 3 * 1 + 2^-23.
TEST_F(ArithmeticTest, SumsOfDifferentFormatsAreRoundedOnce) {
  const auto found = after<std::uint32_t>(R"(
  mov.b16 %rs1, 0x3F80;
  mov.b32 %f1, 0x33800000;
  add.rp.f32.bf16 %f2, %rs1, %f1;
  add.rm.f32.bf16 %f3, %rs1, %f1;
  sub.rm.f32.bf16 %f4, %rs1, %f1;
  mov.b16 %rs2, 0x4200;
  mov.b16 %rs3, 0x3C00;
  fma.rp.f32.f16 %f5, %rs2, %rs3, %f1;
  add.rn.sat.f32.f16 %f6, %rs2, %f1;
  st.global.f32 [%rd1], %f2;
  st.global.f32 [%rd1+4], %f3;
  st.global.f32 [%rd1+8], %f4;
  st.global.f32 [%rd1+12], %f5;
  st.global.f32 [%rd1+16], %f6;)",
                                          std::vector<std::uint32_t>(5), 1);
  EXPECT_EQ(found[0], 0x3F800001U);
  EXPECT_EQ(found[1], 0x3F800000U);
  EXPECT_EQ(found[2], 0x3F7FFFFFU);  // exact: 1 - 2^-24
  EXPECT_EQ(found[3], 0x40400001U);
  EXPECT_EQ(found[4], 0x3F800000U);
}

}  // namespace
}  // namespace emu
