// PTX that asks for too much: it is refused with its line, and nothing is written beyond its place.
#include <clocale>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea_emulator/error.hpp"
#include "tests/emulator/device_fixture.hpp"

namespace emu {
namespace {

// What is said of a module; "" where it is loaded.
std::string said_of(const std::string& ptx, std::size_t max_bytes = std::size_t{1} << 30U) {
  try {
    Device device;
    (void)device.load(ptx, max_bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string with_parameters(const std::string& parameters) {
  return fmt::format(".version 9.0\n.target sm_90a\n.entry test({}) {{ ret; }}\n", parameters);
}

TEST(LimitsTest, SizesOfVariablesAreBounded) {
  for (const auto& [declaration, most] : std::vector<std::pair<std::string, std::string>>{
           {".local .align 8 .b8 a[0x8000000000001000];", "524288"},
           {".local .b8 a[524289];", "524288"},
           {".local .b64 a[0x2000000000000001];", "524288"},
           {".local .b8 a[4294967296][4294967296];", "524288"},
           {".local .b8 a[400000]; .local .b8 b[400000];", "524288"},
           {".shared .b8 a[0x100000000];", "233472"},
           {".shared .b8 a[200000]; .shared .b8 b[200000];", "233472"},
           {".local .align 0x8000000000000000 .b8 a[8];", "65536"},
       }) {
    const std::string said = said_of(kernel(declaration));
    EXPECT_TRUE(said.starts_with("line ")) << declaration << ": " << said;
    EXPECT_NE(said.find(most), std::string::npos) << declaration << ": " << said;
  }
  EXPECT_EQ(said_of(kernel(".local .b8 a[262144]; .local .b64 b[32768];")), "");
  EXPECT_EQ(said_of(kernel("", ".shared .align 1024 .b8 a[200000];")), "");
}

TEST(LimitsTest, SizesOfParametersAreBounded) {
  for (const char* const parameters :
       {".param .b8 a[0xFFFFFFFFFFFFFFF8]", ".param .b64 a[0x2000000000000001]",
        ".param .align 8 .b8 a[32765]", ".param .b8 a[32000], .param .b8 b[1000]"}) {
    EXPECT_NE(said_of(with_parameters(parameters)).find("32764 bytes"), std::string::npos)
        << parameters << ": " << said_of(with_parameters(parameters));
  }
  EXPECT_EQ(said_of(with_parameters(".param .align 4 .b8 a[32764]")), "");
}

TEST(LimitsTest, GlobalVariablesTakeMemoryThatIsCounted) {
  constexpr std::size_t kMost = std::size_t{1} << 20U;
  for (const char* const variable : {".global .b8 a[1000000];", ".global .b8 a[1099511627776];",
                                     ".const .b8 a[500000] = {1};"}) {
    EXPECT_NE(said_of(kernel("", variable), kMost).find("1 MiB of memory"), std::string::npos)
        << variable << ": " << said_of(kernel("", variable), kMost);
  }
  EXPECT_NE(said_of(kernel("", ".global .b8 a[1099511627777];")).find("1099511627776 bytes"),
            std::string::npos);
  EXPECT_EQ(said_of(kernel("", ".global .b8 a[100000] = {1, 2};"), kMost), "");
}

TEST(LimitsTest, WhatTextMakesIsCounted) {
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  std::string registers;
  for (int i = 0; i < 9; ++i) {
    registers += fmt::format(".reg .b64 %a{}_<9000000>;\n", i);
  }
  std::string blocks;
  std::string instructions;
  for (int i = 0; i < 200'000; ++i) {
    blocks += "{}\n";
    instructions += "mov.u32 %r2, 1;\n";
  }
  // Each branch has an edge to each of its targets.
  std::string branches = "TARGETS: .branchtargets HERE";
  for (int i = 0; i < 2000; ++i) {
    branches += ", HERE";
  }
  branches += ";\nHERE:\n";
  for (int i = 0; i < 2000; ++i) {
    branches += "brx.idx %r2, TARGETS;\n";
  }
  for (const std::string& text : {registers, blocks, instructions, branches}) {
    EXPECT_NE(said_of(kernel(text), kMost).find("more than the allowed 64 MiB"), std::string::npos)
        << text.substr(0, 40) << said_of(kernel(text), kMost);
  }
}

TEST(LimitsTest, TextInItselfIsBounded) {
  constexpr std::size_t kMany = 50'000;
  const auto many = [](char sign) { return std::string(kMany, sign); };
  for (const std::string& operand :
       {many('-') + "1", many('!') + "1", many('[') + "1", many('{') + "1" + many('}')}) {
    EXPECT_NE(said_of(kernel("mov.u32 %r2, " + operand + ";")).find("nested operands"),
              std::string::npos)
        << operand.front();
  }
  EXPECT_NE(said_of(kernel("mov.u32 %r2, {1;")).find("has no end"), std::string::npos);
  EXPECT_NE(said_of(kernel(many('{') + many('}'))).find("nested blocks"), std::string::npos);
  EXPECT_EQ(said_of(kernel("{ { mov.u32 %r2, -1; } }")), "");
}

TEST(LimitsTest, NumbersAreTheSameInEachLocale) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* const locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    if (std::setlocale(LC_NUMERIC, locale) != nullptr) {
      EXPECT_EQ(said_of(kernel("mov.f32 %f1, 1.5;")), "") << locale;
    }
  }
  std::setlocale(LC_NUMERIC, before.c_str());
}

TEST(LimitsTest, NumbersThatNoTypeHoldsAreRefused) {
  const std::string rest = "\n.target sm_90a\n.entry test() { ret; }\n";
  for (const char* const version : {"99999999999.0", "9.99999999999", "9.0e5"}) {
    EXPECT_NE(
        said_of(fmt::format(".version {}{}", version, rest)).find("line 1: expected a version"),
        std::string::npos)
        << version;
  }
  const std::vector<std::pair<const char*, const char*>> directives = {
      {".maxnreg 5000000000", "line 3: expected"},
      {".minnctapersm 99999999999", "line 3: expected"},
      {".maxntid 4294967296, 1, 1", "line 3: expected"},
      {".maxntid 1, 1, 1, 1", "line 3: at most three sizes are allowed"}};
  for (const auto& [directive, told] : directives) {
    const std::string said = said_of(
        fmt::format(".version 9.0\n.target sm_90a\n.entry test() {} {{ ret; }}\n", directive));
    EXPECT_NE(said.find(told), std::string::npos) << directive << ": " << said;
  }
  for (const char* const body :
       {"mov.u32 %r2, %tid.q;", "mov.u32 %r2, %tid.;", "cp.async.wait_group 256;",
        ".loc 1 9999999999 1", "ld.global.pred %rs1, [%rd1];", "ld.global.s4 %rs1, [%rd1];",
        ".reg .b128 %q; ld.global.v2.b128 {%q, %q}, [%rd1];",
        "fence.proxy.tensormap::generic.release;"}) {
    EXPECT_NE(said_of(kernel(body)), "") << body;
  }
  for (const char* const body : {"st.global.b128 [%rd1], 5;", "mov.b128 %q, 5;"}) {
    const std::string said = said_of(kernel(std::string(".reg .b128 %q;") + body));
    EXPECT_NE(said.find("a constant has at most 64 bits"), std::string::npos) << body << said;
  }
  EXPECT_NE(said_of(kernel(".reg .b128 %q; mov.b128 %q, tile;", ".shared .b8 tile[8];"))
                .find("unsupported operand tile"),
            std::string::npos);
  EXPECT_EQ(said_of(kernel("mov.u64 %rd4, -9223372036854775808; "
                           "ld.global.u32 %r2, [%rd1+-9223372036854775808];")),
            "");
}

TEST(LimitsTest, NobodyJumpsBehindTheLastInstruction) {
  const std::string ptx = ".version 9.0\n.target sm_90a\n.entry test() { bra END; ret; END: }\n";
  EXPECT_NE(said_of(ptx).find("no instruction follows the label"), std::string::npos)
      << said_of(ptx);
}

class LaunchLimitsTest : public DeviceTest {
 protected:
  std::string said_of_launch(const LaunchConfig& config) {
    try {
      (void)run(kernel(""), 0, config);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(LaunchLimitsTest, ProductsOfSizesDoNotWrap) {
  const std::vector<LaunchConfig> wrong = {
      {.block = {3, 2863311531, 2147483659}},  // a product of 1 modulo 2^64, or near it
      {.block = {65536, 65536, 65536}},
      {.grid = {4294967295, 1, 1}},
      {.grid = {2147483648, 65536, 65536}},
      {.cluster = {65536, 65536, 65536}},
      {.block = {1, 1, 128}},
  };
  for (const LaunchConfig& config : wrong) {
    EXPECT_NE(said_of_launch(config).find(", got "), std::string::npos) << said_of_launch(config);
  }
  EXPECT_EQ(said_of_launch({.block = {4, 4, 64}}), "");
}

TEST_F(LaunchLimitsTest, LocalMemoryIsEachThreadsOwn) {
  const std::string ptx = kernel(R"(
  .local .align 8 .b8 own[524288];
  mov.u64 %rd4, own;
  st.local.u32 [%rd4+524284], %r1;
  ld.local.u32 %r2, [%rd4+524284];
  st.global.u32 [%rd3], %r2;)");
  const std::uint64_t address = put(std::vector<std::uint32_t>(4));
  EXPECT_TRUE(run(ptx, address, 4).is_clean());
  EXPECT_EQ(get<std::uint32_t>(address, 4), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  const KernelHandle loaded = device_.load(ptx).front();
  const Launch launch{.kernel = loaded,
                      .config = {.grid = {8, 1, 1}, .block = {1024, 1, 1}},
                      .parameters = std::vector<std::byte>(8)};
  // Four blocks at a time, each byte with one that says whether it was written.
  EXPECT_GT(device_.host_bytes_of_run({&launch, 1}, {}), std::size_t{4} << 30U);
}

TEST_F(LaunchLimitsTest, NoOffsetLeadsAround) {
  for (const char* const access :
       {"ld.global.u32 %r2, [%rd1+-4];", "ld.global.u64 %rd4, [%rd1+-8];",
        "ld.global.u32 %r2, [%rd1+9223372036854775804];", "st.global.u32 [%rd1+256], %r1;",
        "mov.u64 %rd5, -4; ld.global.u32 %r2, [%rd5];",
        "mov.u64 %rd5, -8; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd5+-8];",
        "mov.u32 %r5, -4; ld.shared.u32 %r2, [%r5];", "ld.local.u32 %r2, [-4];",
        "ld.param.u32 %r2, [memory+8];", "ld.param.u32 %r2, [memory+-4];"}) {
    const std::uint64_t address = put(std::vector<std::uint32_t>(64));
    const Report report = run(kernel(access), address, 1);
    ASSERT_EQ(report.findings.size(), 1U) << access;
    EXPECT_EQ(report.findings.front().kind, FindingKind::kOutOfBounds)
        << access << ": " << report.findings.front().text();
  }
}

// What nothing has written, and reaches global memory.
class StoredValuesTest : public DeviceTest {
 protected:
  std::vector<FindingKind> found(const std::string& ptx,
                                 const RunOptions& options = {.check_stored_values = true}) {
    const std::uint64_t address = device_.allocate(1024);
    std::vector<FindingKind> kinds;
    for (const Finding& finding : run(ptx, address, 32, options).findings) {
      kinds.push_back(finding.kind);
      EXPECT_TRUE(finding.global == 0 || finding.global - address < 1024) << finding.text();
    }
    return kinds;
  }
};

TEST_F(StoredValuesTest, MustHaveBeenWritten) {
  const std::string variables = ".shared .align 16 .b8 tile[256];";
  const std::string read_halo = R"(
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.s32 %r3, %r2, %r3;
  st.shared.u32 [%r3], %r1;
  bar.sync 0;
  ld.shared.u32 %r4, [%r3+{}];
  st.global.u32 [%rd3], %r4;)";
  using Kinds = std::vector<FindingKind>;
  const Kinds uninitialized = {FindingKind::kUninitialized};
  EXPECT_EQ(found(kernel(fmt::format(fmt::runtime(read_halo), 0), variables)), Kinds{});
  EXPECT_EQ(found(kernel(fmt::format(fmt::runtime(read_halo), 4), variables)), uninitialized);
  EXPECT_EQ(found(kernel(fmt::format(fmt::runtime(read_halo), 4), variables),
                  {.check_stored_values = false}),
            Kinds{});
  // A buffer that nobody has filled, and what is computed of it.
  EXPECT_EQ(found(kernel("ld.global.u32 %r2, [%rd3+512]; add.s32 %r2, %r2, 1; "
                         "st.global.u32 [%rd3], %r2;")),
            uninitialized);
  // Read and not used; a part of a vector; a register.
  EXPECT_EQ(found(kernel("ld.global.u32 %r2, [%rd3+512]; st.global.u32 [%rd3], %r1;")), Kinds{});
  EXPECT_EQ(found(kernel("shl.b64 %rd4, %rd2, 2; add.s64 %rd4, %rd1, %rd4; "
                         "st.global.v4.u32 [%rd4], {%r1, %r1, %r9, %r1};")),
            uninitialized);
  EXPECT_EQ(found(kernel("st.global.f32 [%rd3], %f9;")), uninitialized);
}

bool says(const std::string& message, std::string_view words) {
  return message.find(words) != std::string::npos;
}

TEST_F(DeviceTest, SharedMemoryThatTheLaunchDoesNotGiveIsNamed) {
  const std::string body = "mov.u32 %r2, tile; st.shared.u32 [%r2+{}], %r1;";
  const auto message = [&](int offset, const std::string& variables, std::size_t dynamic) {
    const Report report =
        run(kernel(fmt::format(fmt::runtime(body), offset), variables), put(std::vector<int>{0}),
            LaunchConfig{.dynamic_shared_bytes = dynamic});
    return report.is_clean() ? "" : report.findings.front().message;
  };
  const std::string dynamic = ".extern .shared .align 16 .b8 tile[];";
  const std::string missing = "the launch gives no dynamic shared memory";
  EXPECT_TRUE(
      says(message(0, dynamic, 0), "which has 0 bytes; the launch gives no dynamic shared memory"));
  EXPECT_EQ(message(0, dynamic, 4), "");
  const std::string beyond = message(64, dynamic, 64);
  EXPECT_TRUE(says(beyond, "which has 64 bytes"));
  EXPECT_FALSE(says(beyond, missing));
  const std::string without = message(32, ".shared .align 16 .b8 tile[32];", 0);
  EXPECT_TRUE(says(without, "which has 32 bytes"));
  EXPECT_FALSE(says(without, missing));
}

TEST_F(DeviceTest, BlocksThatHaveNotBegunAreCounted) {
  const auto message = [&](std::uint32_t blocks) {
    return run(kernel("LOOP: bra LOOP;"), put(std::vector<int>{0}),
               LaunchConfig{.grid = {blocks, 1, 1}}, {.resident_blocks = 4, .max_steps = 1000})
        .findings.front()
        .message;
  };
  EXPECT_TRUE(says(message(8), "4 of 8 blocks have not begun"));
  EXPECT_TRUE(says(message(8), "--resident-blocks 4"));
  EXPECT_FALSE(says(message(4), "begun"));
}

// The limit may come in any turn, also in the last one and in those in which lanes have parted.
TEST_F(DeviceTest, TheLimitOfOperationsMayComeAtEachOfThem) {
  const std::string ptx = kernel(R"(
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra EVEN;
  st.global.u32 [%rd3], %r1;
  ret;
EVEN:
  and.b32 %r3, %r1, 2;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra TOGETHER;
  st.global.u32 [%rd3], %r2;
TOGETHER:
  bar.warp.sync 0x55555555;)");
  const std::uint64_t address = put(std::vector<std::uint32_t>(128));
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::uint64_t steps = run(ptx, address, 128, {.seed = seed}).steps;
    for (std::uint64_t limit = 1; limit <= steps; ++limit) {
      const Report report = run(ptx, address, 128, {.seed = seed, .max_steps = limit});
      if (report.is_clean()) {
        EXPECT_TRUE(report.has_ended);
        continue;
      }
      const Finding& finding = report.findings.front();
      EXPECT_EQ(finding.kind, FindingKind::kNoProgress) << finding.text();
      EXPECT_GT(finding.line, 0);
      EXPECT_NE(finding.lanes, 0U) << finding.text();
      EXPECT_LT(limit, steps);
    }
  }
}

TEST_F(DeviceTest, WhatHasEndedMakesNoProgressAndNeedsNone) {
  const std::string ptx =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.entry test(.param .u64 a) { ret; }\n";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Report report = run(ptx, 0, 64, {.seed = seed, .max_steps = 1});
    EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
  }
}

}  // namespace
}  // namespace emu
