// What kernels ask of the system: printf, assertions, memory on the stack, special registers, and
// hints.
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/operations/print_format.hpp"
#include "fovea_emulator/error.hpp"
#include "tests/emulator/device_fixture.hpp"

namespace emu {
namespace {

// The bytes of a text with its zero, as PTX has them.
std::string bytes_of_text(std::string_view name, std::string_view text) {
  std::string bytes;
  for (const char c : text) {
    bytes += fmt::format("{}, ", static_cast<int>(c));
  }
  return fmt::format(".global .align 1 .b8 {}[{}] = {{{}0}};\n", name, text.size() + 1, bytes);
}

class SystemCallsTest : public DeviceTest {
 protected:
  // What the kernel prints of the values at %rd5 in local memory.
  std::string printed(std::string_view format, std::string_view values, std::uint32_t threads = 1,
                      const RunOptions& options = {}) {
    const std::string variables =
        ".extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 values);\n" +
        bytes_of_text("format", format) + bytes_of_text("word", "three");
    const std::string body = fmt::format(R"(
  .local .align 8 .b8 own[64];
  mov.u64 %rd5, own;
  cvta.local.u64 %rd6, %rd5;
  mov.u64 %rd7, format;
  cvta.global.u64 %rd8, %rd7;
  {}
  {{
    .param .b64 a, b;
    .param .b32 c;
    st.param.b64 [a], %rd8;
    st.param.b64 [b], %rd6;
    call.uni (c), vprintf, (a, b);
    ld.param.b32 %r9, [c];
  }}
  st.global.u32 [%rd3], %r9;)",
                                         values);
    const std::uint64_t address = put(std::vector<std::uint32_t>(32));
    const Report report = run(kernel(body, variables), address, threads, options);
    count_ = get<std::uint32_t>(address, 1).front();
    findings_ = report.findings;
    return report.printed;
  }

  std::uint32_t count_ = 0;
  std::vector<Finding> findings_;
};

TEST_F(SystemCallsTest, PrintfPrintsItsValues) {
  EXPECT_EQ(printed("%d %f %s\n",
                    "st.local.u32 [%rd5], 3; mov.u64 %rd9, 4609434218613702656; "
                    "st.local.u64 [%rd5+8], %rd9; mov.u64 %rd9, word; cvta.global.u64 %rd9, %rd9; "
                    "st.local.u64 [%rd5+16], %rd9;"),
            "3 1.500000 three\n");
  EXPECT_EQ(count_, 3U);
  EXPECT_EQ(printed("lane %2u.", "st.local.u32 [%rd5], %r1;", 3), "lane  0.lane  1.lane  2.");
  EXPECT_EQ(printed("nothing", ""), "nothing");
  EXPECT_EQ(count_, 0U);
  EXPECT_EQ(printed("%4000d", "st.local.u32 [%rd5], 3;", 32).size(), 32U * 4000);
}

TEST_F(SystemCallsTest, WhatIsPrintedMustBeThere) {
  EXPECT_EQ(printed("%d", ""), "0");
  EXPECT_TRUE(findings_.empty());
  EXPECT_EQ(printed("%d", "", 1, {.check_stored_values = true}), "");
  ASSERT_EQ(findings_.size(), 1U);
  EXPECT_EQ(findings_[0].kind, FindingKind::kUninitialized);
  printed("%s", "mov.u64 %rd9, 4096; st.local.u64 [%rd5], %rd9;");
  ASSERT_EQ(findings_.size(), 1U);
  EXPECT_EQ(findings_[0].kind, FindingKind::kOutOfBounds);
  EXPECT_EQ(printed("%s", "mov.u64 %rd9, 0; st.local.u64 [%rd5], %rd9;"), "(null)");
  EXPECT_THROW(
      device_.load(kernel("call vprintf, (%rd1);", ".extern .func vprintf(.param .b64 format);")),
      Error);
}

TEST(PrintFormatTest, ConversionsAreThoseOfC) {
  const auto formatted = [](std::string_view format, std::vector<std::uint64_t> values) {
    std::size_t next = 0;
    int count = 0;
    return format_print(format,
                        {.next = [&](std::size_t /*bytes*/) { return values.at(next++); },
                         .string_at = [](std::uint64_t at) { return std::string(at, 'x'); }},
                        10'000, count);
  };
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const auto wanted = [](const char* format, auto... values) {
    std::array<char, 9000> text{};
    std::snprintf(text.data(), text.size(), format, values...);
    return std::string(text.data());
  };
  for (const char* const format : {"%d", "%5i|", "%-7d|", "%+d", "% d", "%05d", "%.3d", "%8.3d|"}) {
    for (const int value : {0, 7, -7, 2147483647, -2147483647 - 1}) {
      EXPECT_EQ(formatted(format, {static_cast<std::uint32_t>(value)}), wanted(format, value));
    }
  }
  for (const char* const format : {"%u", "%x", "%#x", "%X", "%o", "%#o", "%08x", "%-12u|"}) {
    EXPECT_EQ(formatted(format, {0xDEADBEEFU}), wanted(format, 0xDEADBEEFU)) << format;
  }
  for (const char* const format : {"%ld", "%lld", "%lu", "%llx", "%#lx", "%zu", "%jd", "%td"}) {
    EXPECT_EQ(formatted(format, {0xFEDCBA9876543210U}), wanted(format, 0xFEDCBA9876543210U))
        << format;
  }
  for (const char* const format : {"%hd", "%hu", "%hhd", "%hhx", "%c"}) {
    EXPECT_EQ(formatted(format, {0x1F3C1}), wanted(format, 0x1F3C1)) << format;
  }
  for (const char* const format :
       {"%f", "%.2f", "%10.3e|", "%g", "%G", "%a", "%A", "%+.0f", "%E"}) {
    for (const double value : {0.0, -1.5, 3.14159e30, 1e-300, 1.0 / 0.0}) {
      EXPECT_EQ(formatted(format, {bits(value)}), wanted(format, value)) << format;
    }
  }
  EXPECT_EQ(formatted("%*d|%-*d|%.*f", {5, 42, 4, 7, 2, bits(1.239)}), "   42|7   |1.24");
  EXPECT_EQ(formatted("%*d|", {static_cast<std::uint32_t>(-5), 42}), "42   |");
  EXPECT_EQ(formatted("%s %.2s %5s| %-5s|", {3, 3, 3, 3}), "xxx xx   xxx| xxx  |");
  EXPECT_EQ(formatted("%p", {0x1234}), "0x1234");
  EXPECT_EQ(formatted("100%% %y %", {}), "100% %y %");
  EXPECT_EQ(formatted("%99999999999d", {1}).size(), 4096U);
  EXPECT_EQ(formatted("%9000d%9000d%9000d%9000d", {1, 1, 1, 1}).size(), 3U * 4096);
}

TEST_F(SystemCallsTest, AnAssertionThatDoesNotHoldIsFound) {
  const std::string variables =
      ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
      ".param .b64 e) .noreturn;\n" +
      bytes_of_text("message", "i < 16") + bytes_of_text("file", "work.cu") +
      bytes_of_text("function", "void f(int)");
  const std::string body = R"(
  setp.lt.u32 %p1, %r1, {};
  @%p1 bra HOLDS;
  mov.u64 %rd4, message; mov.u64 %rd5, file; mov.u64 %rd6, function;
  {{
    .param .b64 a, b, d, e;
    .param .b32 c;
    st.param.b64 [a], %rd4; st.param.b64 [b], %rd5; st.param.b32 [c], 129;
    st.param.b64 [d], %rd6; st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
  }}
HOLDS:)";
  const auto report_of = [&](int bound) {
    return run(kernel(fmt::format(fmt::runtime(body), bound), variables), 0, 32);
  };
  EXPECT_TRUE(report_of(32).is_clean());
  const Report report = report_of(16);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, FindingKind::kAssertion);
  EXPECT_EQ(report.findings[0].message,
            "work.cu:129: void f(int): the assertion `i < 16` does not hold");
  EXPECT_EQ(report.findings[0].lanes, 0xFFFF0000U);
}

TEST_F(SystemCallsTest, MemoryOnTheStackIsEachThreadsOwn) {
  // Lane i takes i + 1 words, writes them, and adds them up.
  const std::string body = R"(
  stacksave.u64 %rd9;
  add.s32 %r2, %r1, 1;
  mul.wide.u32 %rd4, %r2, 4;
  alloca.u64 %rd5, %rd4, 16;
  mov.u32 %r3, 0;
  mov.u64 %rd6, %rd5;
LOOP:
  st.local.u32 [%rd6{}], %r3;
  add.s64 %rd6, %rd6, 4;
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, %r2;
  @%p1 bra LOOP;
  ld.local.u32 %r4, [%rd6+-4];
  st.global.u32 [%rd3], %r4;
  stackrestore.u64 %rd9;
  {})";
  const auto with = [&](std::string_view offset, std::string_view end) {
    return fmt::format(fmt::runtime(body), offset, end);
  };
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t i = 0; i < 32; ++i) {
    wanted.push_back(i);
  }
  EXPECT_EQ(after(with("", ""), std::vector<std::uint32_t>(32), 32), wanted);
  EXPECT_EQ(finding_of(with("+4", "")), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of(with("", "ld.local.u32 %r4, [%rd5];")), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("mov.u64 %rd4, 600000; alloca.u64 %rd5, %rd4;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("mov.u64 %rd4, 64; stackrestore.u64 %rd4;"), FindingKind::kIllegalOperand);
  EXPECT_THROW(device_.load(kernel("alloca.u64 %rd5, %rd4, 3;")), Error);
  EXPECT_THROW(device_.load(kernel("alloca.u32 %r5, %r4;")), Error);
}

TEST_F(SystemCallsTest, SpecialRegistersHaveTheirValues) {
  const auto value_of = [&](std::string_view name, std::string_view type = "u32") {
    const bool is_wide = type == "u64";
    const LaunchConfig config{.block = {64, 1, 1}, .dynamic_shared_bytes = 96};
    const std::uint64_t address = put(std::vector<std::uint32_t>(64));
    const std::string body =
        is_wide ? fmt::format("mov.u64 %rd4, {}; cvt.u32.u64 %r2, %rd4; st.global.u32 [%rd3], %r2;",
                              name)
                : fmt::format("mov.{} %r2, {}; st.global.u32 [%rd3], %r2;", type, name);
    const Report report = run(kernel(body), address, config);
    EXPECT_TRUE(report.is_clean()) << name;
    return get<std::uint32_t>(address, 64);
  };
  EXPECT_EQ(value_of("%laneid")[37], 5U);
  EXPECT_EQ(value_of("%warpid")[37], 1U);
  EXPECT_EQ(value_of("%lanemask_eq")[37], 1U << 5U);
  EXPECT_EQ(value_of("%lanemask_lt")[37], 0x1FU);
  EXPECT_EQ(value_of("%lanemask_le")[37], 0x3FU);
  EXPECT_EQ(value_of("%lanemask_gt")[37], 0xFFFFFFC0U);
  EXPECT_EQ(value_of("%lanemask_ge")[37], 0xFFFFFFE0U);
  EXPECT_EQ(value_of("%lanemask_gt")[63], 0U);
  EXPECT_EQ(value_of("%dynamic_smem_size")[0], 96U);
  EXPECT_EQ(value_of("%total_smem_size")[0], 128U);
  EXPECT_EQ(value_of("%aggr_smem_size")[0], 128U + 1024);
  EXPECT_LT(value_of("%smid")[0], value_of("%nsmid")[0]);
  EXPECT_GE(value_of("%nwarpid")[0], 32U);
  EXPECT_GE(value_of("%gridid", "u64")[0], 1U);
  EXPECT_EQ(value_of("%envreg31")[0], 0U);
  EXPECT_EQ(value_of("%pm7")[0], 0U);
  EXPECT_EQ(value_of("%current_graph_exec", "u64")[0], 0U);
  EXPECT_EQ(value_of("WARP_SZ")[0], 32U);
  EXPECT_EQ(value_of("WARP_SZ-1")[0], 31U);
  EXPECT_EQ(value_of("%clusterid.x")[0], 0U);
  for (const char* const name : {"%envreg32", "%pm8", "%tid.w", "%lanemask", "%tid", "%envreg"}) {
    EXPECT_THROW(device_.load(kernel(fmt::format("mov.u32 %r2, {};", name))), Error) << name;
  }
  EXPECT_THROW(device_.load(kernel("mov.u64 %rd4, %laneid;")), Error);
  EXPECT_EQ(after("mov.pred %p1, %is_explicit_cluster; selp.u32 %r2, 1, 0, %p1; "
                  "st.global.u32 [%rd3], %r2;",
                  std::vector<std::uint32_t>{7}, 1),
            std::vector<std::uint32_t>{0});
}

TEST_F(SystemCallsTest, AddressesTellTheirSpace) {
  const auto spaces_of = [&](std::string_view address) {
    std::string body = fmt::format("{} mov.u32 %r2, 0;", address);
    unsigned bit = 1;
    for (const char* const space : {"global", "shared", "local", "const", "shared::cluster"}) {
      body += fmt::format("isspacep.{} %p1, %rd4; @%p1 add.u32 %r2, %r2, {};", space, bit);
      bit *= 2;
    }
    return after(body + "st.global.u32 [%rd3], %r2;", std::vector<std::uint32_t>{0}, 1,
                 ".shared .b32 tile;\n.const .b32 factor = 3;\n")
        .front();
  };
  EXPECT_EQ(spaces_of("mov.u64 %rd4, %rd1;"), 1U);
  EXPECT_EQ(spaces_of("mov.u64 %rd4, tile; cvta.shared.u64 %rd4, %rd4;"), 2U + 16);
  EXPECT_EQ(spaces_of(".local .b32 own; mov.u64 %rd4, own; cvta.local.u64 %rd4, %rd4;"), 4U);
  EXPECT_EQ(spaces_of("mov.u64 %rd4, factor; cvta.const.u64 %rd4, %rd4;"), 8U);
  EXPECT_THROW(device_.load(kernel("isspacep.texture %p1, %rd4;")), Error);
  EXPECT_THROW(device_.load(kernel("istypep.samplerref %p1, %rd4;")), Error);
}

TEST_F(SystemCallsTest, HintsChangeNothing) {
  const std::vector<std::uint32_t> values(32, 5);
  EXPECT_EQ(after(R"(
  prefetch.global.L2 [%rd3];
  prefetch.local.L1 [%rd3];
  prefetchu.L1 [%rd3];
  applypriority.global.L2::evict_normal [%rd1], 128;
  createpolicy.fractional.L2::evict_last.b64 %rd4, 0f3F000000;
  createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd4;
  createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %rd5, [%rd1], 64, 128;
  createpolicy.cvt.L2.b64 %rd6, %rd5;
  ld.global.L2::cache_hint.u32 %r2, [%rd3], %rd4;
  nanosleep.u32 100;
  nanosleep.u32 %r2;
  pmevent 3;
  st.global.u32 [%rd3], %r2;)",
                  values, 32),
            values);
  for (const char* const wrong :
       {"prefetch.shared.L2 [%rd3];", "prefetch.global.L3 [%rd3];",
        "applypriority.global.L2::evict_normal [%rd1], 64;", "nanosleep.u64 %rd4;",
        "createpolicy.fractional.L1::evict_last.b64 %rd4;", "discard.global.L1 [%rd1], 128;"}) {
    EXPECT_THROW(device_.load(kernel(wrong)), Error) << wrong;
  }
}

TEST_F(SystemCallsTest, DiscardedLinesHaveNoValues) {
  const std::string body =
      "setp.eq.u32 %p1, %r1, 0; @%p1 discard.global.L2 [%rd1], 128; {} "
      "ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;";
  const RunOptions strict{.check_stored_values = true};
  EXPECT_EQ(finding_of(fmt::format(fmt::runtime(body), ""), 32, "", strict),
            FindingKind::kUninitialized);
  EXPECT_EQ(after(fmt::format(fmt::runtime(body), "st.global.u32 [%rd3], %r1;"),
                  std::vector<std::uint32_t>(32), 32)[9],
            9U);
  EXPECT_EQ(finding_of("discard.global.L2 [%rd1+64], 128;"), FindingKind::kMisaligned);
}

}  // namespace
}  // namespace emu
