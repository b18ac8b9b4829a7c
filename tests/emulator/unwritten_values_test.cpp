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
    ".shared .align 16 .b8 cells[1024]; .shared .align 8 .b8 others[64];"
    R"(
.func (.param .align 4 .b8 result[4]) pass(.param .align 4 .b8 fields[4])
{
  .reg .b32 %r<2>;
  ld.param.u32 %r1, [fields];
  st.param.u32 [result], %r1;
  ret;
}
.func (.reg .b32 result) hand_over(.reg .b32 x) { mov.u32 result, x; ret; }
.func set_fields()
{
  .local .align 4 .b8 fields[4];
  .reg .b32 %r<9>;
  ld.local.u32 %r1, [fields];
  and.b32 %r1, %r1, -32;
  or.b32 %r1, %r1, 9;
  st.local.u32 [fields], %r1;
  ret;
}
.func (.reg .b32 result) get_fields()
{
  .local .align 4 .b8 fields[4];
  .reg .b32 %r<2>;
  ld.local.u32 %r1, [fields];
  and.b32 result, %r1, 31;
  ret;
}
.func (.reg .b32 result) set_if(.reg .b32 condition)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  setp.eq.u32 %p1, condition, 0;
  @%p1 bra OUT;
  and.b32 %r1, %r1, -32;
  or.b32 %r1, %r1, 9;
OUT:
  and.b32 result, %r1, 31;
  ret;
}
.func (.reg .b32 result) recurse(.reg .b32 depth)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  and.b32 %r1, %r1, -32;
  or.b32 %r1, %r1, depth;
  setp.eq.u32 %p1, depth, 0;
  @%p1 bra OUT;
  sub.u32 %r2, depth, 1;
  call (%r3), recurse, (%r2);
OUT:
  and.b32 result, %r1, 31;
  ret;
}
)";

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

// Bit fields of a local word, one set after the other, as unoptimised code does.
TEST_F(UnwrittenValuesTest, BitFieldsOfALocalWordAreSetOneByOne) {
  const auto found = [&](std::string_view uses) {
    return is_found(
        ".local .align 4 .b8 fields[8];\n"
        "ld.local.u32 %r7, [fields]; and.b32 %r7, %r7, -32; or.b32 %r7, %r7, 9;\n"
        "st.local.u32 [fields], %r7;\n"
        "ld.local.u32 %r6, [fields]; and.b32 %r6, %r6, 0xffff001f; or.b32 %r6, %r6, 0x660;\n"
        "st.local.u32 [fields], %r6;\n"
        "ld.local.u32 %r5, [fields];\n" +
        std::string(uses));
  };
  // 5 and 11 bits were written.
  EXPECT_FALSE(found("and.b32 %r10, %r5, 31; st.global.u32 [%rd3], %r10;"));
  EXPECT_FALSE(found("and.b32 %r10, %r5, 0xffff; st.global.u32 [%rd3], %r10;"));
  EXPECT_FALSE(found("bfe.u32 %r10, %r5, 5, 11; st.global.u32 [%rd3], %r10;"));
  EXPECT_FALSE(found("ld.local.u16 %rs1, [fields]; st.global.u16 [%rd3], %rs1;"));
  EXPECT_FALSE(found("shl.b32 %r10, %r5, 16; shr.s32 %r10, %r10, 21; st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(found("and.b32 %r10, %r5, 0x1ffff; st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(found("bfe.u32 %r10, %r5, 5, 12; st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(found("st.global.u32 [%rd3], %r5;"));
  EXPECT_TRUE(found("xor.b32 %r10, %r5, %r9; st.global.u16 [%rd3], %r10;"));
  // The rest of the word, and its neighbour.
  EXPECT_FALSE(
      found("bfi.b32 %r10, %r1, %r5, 16, 16; st.local.u32 [fields], %r10;"
            "ld.local.u32 %r10, [fields]; st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(
      found("ld.local.u32 %r10, [fields+4]; and.b32 %r10, %r10, 31;"
            "st.global.u32 [%rd3], %r10;"));
  // Parts of a byte, in a register of another size.
  EXPECT_FALSE(
      found("ld.local.u8 %rs1, [fields]; cvt.u32.u16 %r10, %rs1; and.b32 %r10, %r10, 255;"
            "st.global.u32 [%rd3], %r10;"));
  EXPECT_FALSE(
      found("and.b32 %r10, %r9, -8; or.b32 %r10, %r10, 5; cvt.u64.u32 %rd4, %r10;"
            "and.b64 %rd4, %rd4, 7; cvt.u32.u64 %r10, %rd4; st.global.u32 [%rd3], %r10;"));
  EXPECT_TRUE(
      found("and.b32 %r10, %r9, -8; or.b32 %r10, %r10, 5; cvt.u64.u32 %rd4, %r10;"
            "and.b64 %rd4, %rd4, 15; cvt.u32.u64 %r10, %rd4; st.global.u32 [%rd3], %r10;"));
}

// Bits of a word that were written stay known when the word is moved; of %r7 5 were.
TEST_F(UnwrittenValuesTest, BitFieldsAreMoved) {
  const auto found = [&](std::string_view moves, std::string_view mask) {
    return is_found(std::string("and.b32 %r7, %r9, -32; or.b32 %r7, %r7, 9;") + std::string(moves) +
                    "and.b32 %r10, %r5, " + std::string(mask) + "; st.global.u32 [%rd3], %r10;");
  };
  for (const std::string_view moves :
       {"{ .param .align 4 .b8 a[4]; .param .align 4 .b8 b[4]; st.param.b32 [a], %r7;"
        "call (b), pass, (a); ld.param.b32 %r5, [b]; }",
        "call (%r5), hand_over, (%r7);", "setp.ge.u32 %p1, %r1, 0; selp.b32 %r5, %r7, %r1, %p1;",
        "setp.ge.u32 %p1, %r1, 0; selp.b32 %r5, %r9, %r7, !%p1;",
        "mov.b32 {%rs2, %rs3}, %r7; mov.b32 %r5, {%rs2, %rs3};"}) {
    EXPECT_FALSE(found(moves, "31")) << moves;
    EXPECT_TRUE(found(moves, "63")) << moves;
  }
  const std::string_view halves = "mov.b32 {%rs2, %rs3}, %r7; mov.b32 %r5, {%rs3, %rs2};";
  EXPECT_FALSE(found(halves, "0x1f0000"));
  EXPECT_TRUE(found(halves, "0x1f"));
  EXPECT_TRUE(found("setp.eq.u32 %p1, %r9, 5; selp.b32 %r5, %r7, %r1, %p1;", "31"));
}

// What a function has in its registers and local variables is that of this call alone.
TEST_F(UnwrittenValuesTest, EachCallBeginsWithoutValues) {
  const std::string_view store = "st.global.u32 [%rd3], %r10;";
  const auto stores = [&](std::string_view calls) {
    return is_found(std::string(calls) + std::string(store));
  };
  EXPECT_TRUE(stores("call (%r10), get_fields, ();"));
  EXPECT_TRUE(stores("call set_fields, (); call (%r10), get_fields, ();"));
  EXPECT_FALSE(stores("mov.u32 %r5, 1; call (%r10), set_if, (%r5);"));
  EXPECT_TRUE(
      stores("mov.u32 %r5, 1; call (%r10), set_if, (%r5); mov.u32 %r5, 0;"
             "call (%r10), set_if, (%r5);"));
  // The caller has its own back.
  EXPECT_FALSE(stores("mov.u32 %r5, 3; call (%r10), recurse, (%r5);"));
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
