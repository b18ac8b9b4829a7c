// Functions and calls: arguments, results, recursion, lanes that call apart, and variables that
// hold addresses.
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/error.hpp"
#include "tests/emulator/device_fixture.hpp"

namespace emu {
namespace {

constexpr std::string_view kFunctions = R"(
.func (.param .b32 result) twice(.param .b32 x)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  add.s32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
.func (.param .b32 result) thrice(.param .b32 x)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  mul.lo.s32 %r2, %r1, 3;
  st.param.b32 [result], %r2;
  ret;
}
.func (.reg .b32 result) next(.reg .b32 x)
{
  add.s32 result, x, 1;
  ret;
}
.func bump(.param .b64 place, .param .b32 by)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.b64 %rd1, [place];
  ld.param.b32 %r1, [by];
  ld.u32 %r2, [%rd1];
  add.s32 %r3, %r2, %r1;
  st.u32 [%rd1], %r3;
  ret;
}
.func (.param .b32 result) fibonacci(.param .b32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [n];
  setp.lt.u32 %p1, %r1, 2;
  mov.u32 %r4, %r1;
  @%p1 bra DONE;
  add.s32 %r2, %r1, -1;
  {
    .param .b32 a;
    st.param.b32 [a], %r2;
    .param .b32 b;
    call.uni (b), fibonacci, (a);
    ld.param.b32 %r3, [b];
  }
  add.s32 %r2, %r1, -2;
  {
    .param .b32 a;
    st.param.b32 [a], %r2;
    .param .b32 b;
    call (b), fibonacci, (a);
    ld.param.b32 %r4, [b];
  }
  add.s32 %r4, %r3, %r4;
DONE:
  st.param.b32 [result], %r4;
  ret;
}
.func (.param .b32 result) endless(.param .b32 n)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  {
    .param .b32 a, b;
    st.param.b32 [a], %r1;
    call (b), endless, (a);
    ld.param.b32 %r2, [b];
  }
  st.param.b32 [result], %r2;
  ret;
}
.func (.param .b32 result) nothing(.param .b32 x) { ret; }
.func (.param .b32 result) odd_only(.param .b32 x)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [x];
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  mov.u32 %r3, 100;
  st.param.b32 [result], %r3;
  @%p1 ret;
  st.param.b32 [result], %r1;
  ret;
}
.func (.param .b32 result) sum_of_stack(.param .b32 n)
{
  .local .align 4 .b32 own[2];
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.b32 %r1, [n];
  mov.u64 %rd1, own;
  st.local.b32 [%rd1+4], %r1;
  setp.eq.u32 %p1, %r1, 0;
  mov.u32 %r3, 0;
  @%p1 bra DONE;
  add.s32 %r2, %r1, -1;
  {
    .param .b32 a, b;
    st.param.b32 [a], %r2;
    call (b), sum_of_stack, (a);
    ld.param.b32 %r3, [b];
  }
DONE:
  ld.local.b32 %r4, [%rd1+4];
  add.s32 %r3, %r3, %r4;
  st.param.b32 [result], %r3;
  ret;
}
.global .align 8 .u64 operations[2] = {twice, thrice};
)";

// A call of `function` with %r1, whose result goes to %r2 and to the lane's own 4 bytes.
std::string call_of(std::string_view function, std::string_view more = "") {
  return fmt::format(R"(
  {{
    .param .b32 a;
    st.param.b32 [a+0], %r1;
    .param .b32 b;
    prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (b), {}, (a){};
    ld.param.b32 %r2, [b+0];
  }}
  st.global.u32 [%rd3], %r2;)",
                     function, more);
}

class FunctionsTest : public DeviceTest {
 protected:
  std::vector<std::uint32_t> results_of(std::string_view body, std::uint32_t threads = 32) {
    return after(body, std::vector<std::uint32_t>(threads), threads, kFunctions);
  }
  // What is said where the kernel is refused.
  std::string refusal_of(std::string_view body, std::string_view functions = kFunctions) {
    try {
      device_.load(kernel(body, functions));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

template <typename Of>
std::vector<std::uint32_t> numbers(std::size_t count, Of&& of) {
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < count; ++i) {
    values.push_back(of(i));
  }
  return values;
}

TEST_F(FunctionsTest, PassArgumentsAndResults) {
  EXPECT_EQ(results_of(call_of("twice")), numbers(32, [](auto i) { return 2 * i; }));
  EXPECT_EQ(results_of("call (%r2), next, (%r1); call (%r3), next, (%r2); call (%r2), next, (41); "
                       "add.s32 %r2, %r2, %r3; st.global.u32 [%rd3], %r2;"),
            numbers(32, [](auto i) { return i + 44; }));
  // A pointer to the caller's local memory.
  EXPECT_EQ(results_of(R"(
  .local .align 4 .b32 own[4];
  mov.u64 %rd4, own;
  cvta.local.u64 %rd5, %rd4;
  st.local.u32 [%rd4+8], %r1;
  add.s64 %rd6, %rd5, 8;
  { .param .b64 a; .param .b32 b; st.param.b64 [a], %rd6; st.param.b32 [b], 7; call bump, (a, b); }
  ld.local.u32 %r2, [%rd4+8];
  st.global.u32 [%rd3], %r2;)"),
            numbers(32, [](auto i) { return i + 7; }));
}

TEST_F(FunctionsTest, CallThemselves) {
  EXPECT_EQ(results_of("and.b32 %r1, %r1, 7;" + call_of("fibonacci")), numbers(32, [](auto i) {
              constexpr std::array<std::uint32_t, 8> kNumbers = {0, 1, 1, 2, 3, 5, 8, 13};
              return kNumbers.at(i % 8);
            }));
  // Each call has local variables of its own.
  EXPECT_EQ(results_of(call_of("sum_of_stack")),
            numbers(32, [](auto i) { return i * (i + 1) / 2; }));
}

TEST_F(FunctionsTest, LanesCallApart) {
  EXPECT_EQ(results_of("setp.lt.u32 %p1, %r1, 9; mov.u32 %r2, 5; "
                       "{ .param .b32 a, b; st.param.b32 [a], %r1; @%p1 call (b), twice, (a); "
                       "@%p1 ld.param.b32 %r2, [b]; } st.global.u32 [%rd3], %r2;"),
            numbers(32, [](auto i) { return i < 9 ? 2 * i : 5; }));
  // Some return early; all meet again behind the call.
  EXPECT_EQ(results_of(call_of("odd_only") + "vote.sync.ballot.b32 %r3, 1, -1; "
                                             "add.s32 %r2, %r2, %r3; st.global.u32 [%rd3], %r2;"),
            numbers(32, [](auto i) { return (i % 2 != 0 ? i : 100) + ~0U; }));
  // Through addresses that differ.
  const std::string load_address =
      "mov.u64 %rd4, operations; and.b32 %r5, %r1, 1; mul.wide.u32 %rd5, %r5, 8; "
      "add.s64 %rd4, %rd4, %rd5; ld.global.u64 %rd6, [%rd4];";
  const auto wanted = numbers(32, [](auto i) { return i % 2 != 0 ? 3 * i : 2 * i; });
  EXPECT_EQ(results_of(load_address + call_of("%rd6", ", prototype")), wanted);
  EXPECT_EQ(results_of("and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 1; mov.u64 %rd6, twice; "
                       "@%p1 mov.u64 %rd6, thrice;" +
                       call_of("%rd6", ", prototype")),
            wanted);
}

TEST_F(FunctionsTest, WhatGoesWrongIsFound) {
  const auto found = [&](const std::string& body) { return finding_of(body, 32, kFunctions); };
  EXPECT_EQ(found(call_of("endless")), FindingKind::kOutOfBounds);
  EXPECT_EQ(found("mov.u64 %rd6, 1234;" + call_of("%rd6", ", prototype")),
            FindingKind::kIllegalOperand);
  EXPECT_EQ(found("mov.u64 %rd6, bump;" + call_of("%rd6", ", prototype")),
            FindingKind::kIllegalOperand);
  EXPECT_EQ(found(call_of("%rd6", ", prototype")), FindingKind::kUninitialized);
  // A result that the function does not write, and registers of an earlier call.
  const RunOptions strict{.check_stored_values = true};
  EXPECT_EQ(finding_of(call_of("nothing"), 32, kFunctions, strict), FindingKind::kUninitialized);
  // The stack of a call that has returned.
  constexpr std::string_view kDangling = R"(
.func (.param .b64 result) place()
{
  .local .align 4 .b32 own[4];
  .reg .b64 %rd<2>;
  mov.u64 %rd1, own;
  st.param.b64 [result], %rd1;
  ret;
})";
  EXPECT_EQ(finding_of("{ .param .b64 b; call (b), place; ld.param.b64 %rd4, [b]; } "
                       "st.local.u32 [%rd4], %r1;",
                       32, kDangling),
            FindingKind::kOutOfBounds);
}

TEST_F(FunctionsTest, AreRefusedByNameWhereTheyCannotBeCalled) {
  EXPECT_NE(refusal_of("call (%r2), twice, (%r1, %r1);").find("expected 1 arguments, got 2"),
            std::string::npos);
  EXPECT_NE(refusal_of("call (%rd2), next, (%r1);").find("32 bits"), std::string::npos);
  EXPECT_NE(refusal_of("call elsewhere;", ".extern .func elsewhere;")
                .find("unsupported function elsewhere"),
            std::string::npos);
  EXPECT_NE(refusal_of("call (%r2), operations, (%r1);").find("operations is not a function"),
            std::string::npos);
  EXPECT_NE(refusal_of("call.wide (%r2), next, (%r1);").find("unsupported modifier .wide"),
            std::string::npos);
  EXPECT_NE(refusal_of("call;").find("expected a function"), std::string::npos);
  EXPECT_NE(refusal_of("call f;", ".func f { frobnicate; ret; }").find("unsupported instruction"),
            std::string::npos);
  EXPECT_NE(refusal_of(".local .b8 next[4]; call (%r2), next, (%r1);").find("is not a function"),
            std::string::npos);
  EXPECT_NE(refusal_of("call test;", ".func test { ret; }").find("the name of the kernel"),
            std::string::npos);
}

TEST_F(FunctionsTest, BranchesGoToOneOfManyTargets) {
  const std::string body = R"(
  and.b32 %r2, %r1, 3;
  TARGETS: .branchtargets ZERO, ONE, ZERO, THREE;
  brx.idx %r2, TARGETS;
ZERO:
  mov.u32 %r3, 10;
  bra MEET;
ONE:
  mov.u32 %r3, 11;
  bra MEET;
THREE:
  mov.u32 %r3, 13;
MEET:
  vote.sync.ballot.b32 %r4, 1, -1;
  add.s32 %r3, %r3, %r4;
  st.global.u32 [%rd3], %r3;)";
  EXPECT_EQ(results_of(body), numbers(32, [](auto i) {
              return (i % 4 == 1 ? 11U : i % 4 == 3 ? 13U : 10U) + ~0U;
            }));
  EXPECT_EQ(finding_of("TARGETS: .branchtargets A; mov.u32 %r2, 1; brx.idx %r2, TARGETS; A:"),
            FindingKind::kIllegalOperand);
  EXPECT_NE(refusal_of("TARGETS: .branchtargets NOWHERE; brx.idx %r1, TARGETS;").find("NOWHERE"),
            std::string::npos);
}

TEST_F(FunctionsTest, VariablesBeginWithNumbersAndAddresses) {
  constexpr std::string_view kVariables = R"(
.const .align 4 .f32 factors[4] = {1.5, 0f40000000, 3, -1};
.global .align 4 .u32 rows[3][2] = {{1}, {2, 3}};
.global .align 8 .u64 places[] = {generic(rows)+4, rows, 0};
.global .align 1 .u8 low[2] = {0xFF(rows), 0xFF00(rows)};
.global .attribute(.managed) .align 4 .u32 managed = 9;
.global .texref picture;
)";
  const auto values = after<std::uint32_t>(R"(
  mul.wide.u32 %rd5, %r1, 8;
  mov.u64 %rd4, rows;
  add.s64 %rd4, %rd4, %rd5;
  ld.global.u32 %r2, [%rd4];
  ld.global.u64 %rd6, [places];
  ld.u32 %r3, [%rd6+8];
  ld.const.b32 %r4, [factors];
  ld.global.u32 %r5, [managed];
  mov.u64 %rd7, rows;
  ld.global.u8 %rd8, [low];
  ld.global.u8 %rd9, [low+1];
  and.b64 %rd10, %rd7, 255;
  shr.u64 %rd11, %rd7, 8;
  and.b64 %rd11, %rd11, 255;
  setp.eq.u64 %p1, %rd8, %rd10;
  setp.eq.u64 %p2, %rd9, %rd11;
  selp.u32 %r6, 1, 0, %p1;
  selp.u32 %r7, 1, 0, %p2;
  st.global.u32 [%rd3], %r2;
  st.global.u32 [%rd3+16], %r3;
  st.global.u32 [%rd3+32], %r4;
  st.global.u32 [%rd3+48], %r5;
  st.global.u32 [%rd3+64], %r6;
  st.global.u32 [%rd3+80], %r7;)",
                                           std::vector<std::uint32_t>(24), 3, kVariables);
  EXPECT_EQ(std::vector(values.begin(), values.begin() + 3), (std::vector<std::uint32_t>{1, 2, 0}));
  EXPECT_EQ(values[4], 3U);  // rows[1][1]
  EXPECT_EQ(std::bit_cast<float>(values[8]), 1.5F);
  EXPECT_EQ(values[12], 9U);
  EXPECT_EQ(values[16], 1U);
  EXPECT_EQ(values[20], 1U);
  EXPECT_NE(refusal_of("mov.u64 %rd4, picture;", kVariables).find("unsupported type .texref"),
            std::string::npos);
  EXPECT_NE(refusal_of("", ".global .u32 a[2] = {1, 2, 3};").find("more initial values"),
            std::string::npos);
  EXPECT_NE(refusal_of("", ".global .u32 a = {{1}};").find("more nested lists"), std::string::npos);
  EXPECT_NE(refusal_of("", ".global .u64 a = nobody;").find("the address of nobody"),
            std::string::npos);
  EXPECT_NE(refusal_of("", ".global .u32 a[][0] = {1};").find("only the first extent"),
            std::string::npos);
  EXPECT_NE(refusal_of("", ".global .b128 a = 1;").find("more than 64 bits"), std::string::npos);
  // A variable in shared memory may have a function's name.
  EXPECT_EQ(refusal_of("", ".shared .b8 f[8]; .func f { ret; }"), "");
}

TEST_F(FunctionsTest, AKernelIsRefusedAlone) {
  const std::string ptx =
      kernel("") + ".entry other() { frobnicate; ret; }\n" +
      ".entry bad() .frobnicated 3 { ret; }\n.entry last() { mov.u32 %r, @; }\n";
  const std::vector<KernelHandle> kernels =
      device_.load(ptx, std::size_t{1} << 20U, Decode::kAtLaunch);
  ASSERT_EQ(kernels.size(), 4U);
  EXPECT_TRUE(device_.launch(kernels[0], {}, std::vector<std::byte>(8)).is_clean());
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    EXPECT_THROW(device_.decode(kernels[i]), Error);
    EXPECT_THROW(device_.launch(kernels[i], {}, {}), Error);
  }
  EXPECT_THROW(device_.load(ptx), Error);
}

TEST_F(FunctionsTest, OnlyTheVariablesThatAKernelUsesTakeSharedMemory) {
  constexpr std::string_view kTiles =
      ".shared .align 4 .b8 one[200000];\n.shared .align 4 .b8 two[200000];\n";
  EXPECT_EQ(refusal_of("mov.u32 %r2, two;", kTiles), "");
  EXPECT_NE(refusal_of("mov.u32 %r2, two; mov.u32 %r2, one;", kTiles).find("233472"),
            std::string::npos);
}

TEST_F(FunctionsTest, TextIsReadAsCompilersWriteIt) {
  EXPECT_EQ(
      results_of("{.reg.b32 a;mov.u32 a, 3;{.reg.b32 a;mov.u32 a,4;}st.global.u32 [%rd3],a;}", 2),
      (std::vector<std::uint32_t>{3, 3}));
  const std::string ptx =
      ".version 9.0\n.target sm_90a, debug\n.address_size 64\n.file 1 \"a.cu\", 12, 34\n"
      ".section .debug_str { .b8 34, #; }\n.func f { ret; }\n.alias g, f;\n"
      ".entry test(.param .u64 .ptr .global .align 4 to) { .loc 1 2 3 \n call g; ret; END: }\n"
      ".section .debug_loc\n{\n.b64 END\n}\n";
  EXPECT_EQ(device_.load(ptx).size(), 1U);
}

}  // namespace
}  // namespace emu
