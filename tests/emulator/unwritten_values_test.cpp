// Values that nothing wrote: where they are found, and what does not depend on them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"
#include "fovea_emulator/device.hpp"

namespace emu {
namespace {

constexpr std::string_view kCells =
    ".shared .align 16 .b8 cells[1024]; .shared .align 8 .b8 others[64];";

class UnwrittenValuesTest : public DeviceTest {
 protected:
  // Whether a body is found to store what nothing wrote; %r9 and %r8 were not written.
  bool is_found(std::string_view body) {
    const Report report = run(kernel("ld.shared.u32 %r9, [cells+512];\n"
                                     "ld.shared.u32 %r8, [cells+516];\n" +
                                         std::string(body),
                                     kCells),
                              put(std::vector<std::uint32_t>(64, 1)), 32,
                              {.check_stored_values = true, .max_findings = 10});
    EXPECT_TRUE(report.has_ended) << body;
    for (const Finding& finding : report.findings) {
      EXPECT_EQ(finding.kind, FindingKind::kUninitialized) << finding.text();
    }
    return !report.is_clean();
  }
  bool is_stored(std::string_view arithmetic) {
    return is_found(std::string(arithmetic) + "\nst.global.u32 [%rd3], %r10;");
  }
};

TEST_F(UnwrittenValuesTest, ArithmeticPassesThemOn) {
  for (const std::string_view arithmetic :
       {"mov.u32 %r10, %r9;", "add.u32 %r10, %r9, 1;", "mul.lo.u32 %r10, %r9, 2;",
        "xor.b32 %r10, %r9, %r8;", "and.b32 %r10, %r9, 1;", "or.b32 %r10, %r9, 0x7fffffff;",
        "mad.lo.u32 %r10, %r9, %r1, %r1;", "shl.b32 %r10, %r9, 31;", "sub.u32 %r10, %r9, %r8;",
        "min.s32 %r10, %r9, -5;", "max.u32 %r10, %r9, 7;", "rem.u32 %r10, %r9, 3;",
        "shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1;"}) {
    EXPECT_TRUE(is_stored(arithmetic)) << arithmetic;
  }
}

TEST_F(UnwrittenValuesTest, SomeResultsDoNotDependOnThem) {
  for (const std::string_view arithmetic :
       {"xor.b32 %r10, %r9, %r9;", "sub.u32 %r10, %r9, %r9;", "and.b32 %r10, %r9, 0;",
        "mul.lo.u32 %r10, %r9, 0;", "or.b32 %r10, %r9, -1;", "mad.lo.u32 %r10, %r9, 0, 5;",
        "shl.b32 %r10, %r9, 32;", "min.u32 %r10, %r9, 0;", "max.s32 %r10, %r9, 2147483647;",
        "rem.u32 %r10, %r9, 1;", "mul.hi.u32 %r10, %r9, 1;"}) {
    EXPECT_FALSE(is_stored(arithmetic)) << arithmetic;
  }
  // As each lane has it: lane 0 multiplies by 0.
  EXPECT_FALSE(
      is_found("mul.lo.u32 %r10, %r9, %r1; setp.eq.u32 %p1, %r1, 0;"
               "@%p1 st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(
      is_found("mul.lo.u32 %r10, %r9, %r1; setp.eq.u32 %p1, %r1, 1;"
               "@%p1 st.global.u32 [%rd3], %r10;"));
}

TEST_F(UnwrittenValuesTest, PredicatesDependOnThemOrNot) {
  const auto branches = [&](std::string_view combination) {
    return is_found("setp.eq.u32 %p1, %r9, 3; setp.ne.u32 %p2, %r1, %r1;" +
                    std::string(combination) + "@%p3 bra OUT; OUT:");
  };
  EXPECT_TRUE(branches("mov.pred %p3, %p1;"));
  EXPECT_TRUE(branches("or.pred %p3, %p1, %p2;"));
  EXPECT_TRUE(branches("xor.pred %p3, %p1, %p2;"));
  EXPECT_FALSE(branches("and.pred %p3, %p1, %p2;"));
  EXPECT_FALSE(branches("not.pred %p2, %p2; or.pred %p3, %p2, %p1;"));
}

// A word of which one half was written.
TEST_F(UnwrittenValuesTest, HalvesOfAWordAreTakenApart) {
  const auto found = [&](std::string_view uses) {
    return is_found(
        "mov.u16 %rs1, 7; st.shared.u16 [others], %rs1; bar.warp.sync -1;"
        "ld.shared.u32 %r7, [others];" +
        std::string(uses));
  };
  EXPECT_TRUE(found("st.global.u32 [%rd3], %r7;"));
  EXPECT_FALSE(found("st.global.u16 [%rd3], %r7;"));
  EXPECT_FALSE(found("mov.b32 {%rs2, %rs3}, %r7; st.global.u16 [%rd3], %rs2;"));
  EXPECT_TRUE(found("mov.b32 {%rs2, %rs3}, %r7; st.global.u16 [%rd3], %rs3;"));
  EXPECT_FALSE(found("and.b32 %r6, %r7, 0xffff; st.global.u32 [%rd3], %r6;"));
  EXPECT_TRUE(found("and.b32 %r6, %r7, 0x1ffff; st.global.u32 [%rd3], %r6;"));
  EXPECT_FALSE(found("shl.b32 %r6, %r7, 16; st.global.u32 [%rd3], %r6;"));
  EXPECT_TRUE(found("shr.u32 %r6, %r7, 16; st.global.u32 [%rd3], %r6;"));
  // Through memory, and put together again.
  EXPECT_FALSE(
      found("st.shared.u32 [others+8], %r7; ld.shared.u16 %rs2, [others+8];"
            "st.global.u16 [%rd3], %rs2;"));
  EXPECT_TRUE(
      found("st.shared.u32 [others+8], %r7; ld.shared.u16 %rs2, [others+10];"
            "st.global.u16 [%rd3], %rs2;"));
  EXPECT_FALSE(
      found("mov.b32 {%rs2, %rs3}, %r7; mov.b32 %r6, {%rs3, %rs2};"
            "mov.b32 {%rs4, %rs5}, %r6; st.global.u16 [%rd3], %rs5;"));
  // The register has another value then.
  EXPECT_TRUE(found("mov.b32 %r7, %r9; st.global.u16 [%rd3], %r7;"));
}

TEST_F(UnwrittenValuesTest, AtomicOperationsPassThemOn) {
  EXPECT_TRUE(is_stored("atom.shared.add.u32 %r10, [cells], 1;"));
  EXPECT_TRUE(is_stored("red.shared.add.u32 [cells], 1; ld.shared.u32 %r10, [cells];"));
  EXPECT_FALSE(
      is_stored("st.shared.u32 [cells], 3; bar.warp.sync -1;"
                "atom.shared.add.u32 %r10, [cells], 1;"));
  EXPECT_TRUE(
      is_stored("st.shared.u32 [cells], 3; bar.warp.sync -1;"
                "red.shared.add.u32 [cells], %r9; bar.warp.sync -1;"
                "ld.shared.u32 %r10, [cells];"));
}

}  // namespace
}  // namespace emu
