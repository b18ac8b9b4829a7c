// What a trace tells of loads and stores: the passes of 128 bytes that they take.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

class TraceTest : public DeviceTest {
 protected:
  /// Of each load and store of one warp, in order.
  std::vector<std::uint32_t> passes(const std::string& body) {
    std::vector<std::uint32_t> passes;
    const RunOptions options{.trace = [&](const TraceEvent& event) {
      const bool is_access = event.instruction.starts_with("ld.global") ||
                             event.instruction.starts_with("ld.shared") ||
                             event.instruction.starts_with("st.");
      if (event.kind == TraceKind::kRun && is_access) {
        passes.push_back(event.passes);
      } else {
        EXPECT_EQ(event.passes, 0U) << event.instruction;
      }
    }};
    const std::uint64_t address = put(std::vector<std::uint32_t>(32 * 32));
    const Report report =
        run(kernel(body, ".shared .align 16 .b8 table[4096];"), address, 32U, options);
    EXPECT_TRUE(report.is_clean()) << report.findings.front().text();
    return passes;
  }
};

TEST_F(TraceTest, GlobalAccessesTakeAPassALine) {
  EXPECT_EQ(passes(R"(
  mul.wide.u32 %rd4, %r1, 128;
  add.s64 %rd5, %rd1, %rd4;
  mul.wide.u32 %rd6, %r1, 64;
  add.s64 %rd7, %rd1, %rd6;
  setp.lt.u32 %p1, %r1, 5;
  st.global.u32 [%rd3], %r1;
  st.global.u32 [%rd5], %r1;
  st.global.v2.u32 [%rd7], {%r1, %r1};
  @%p1 ld.global.u32 %r2, [%rd5+4];
)"),
            (std::vector<std::uint32_t>{1, 32, 16, 5}));
}

TEST_F(TraceTest, SharedAccessesTakeAPassForEachWordOfABank) {
  EXPECT_EQ(passes(R"(
  mov.u32 %r10, table;
  shl.b32 %r2, %r1, 2;
  add.u32 %r3, %r10, %r2;
  shl.b32 %r4, %r1, 4;
  add.u32 %r5, %r10, %r4;
  shl.b32 %r6, %r1, 7;
  add.u32 %r7, %r10, %r6;
  st.shared.u32 [%r3], %r1;
  bar.warp.sync -1;
  st.shared.v4.u32 [%r5], {%r1, %r1, %r1, %r1};
  bar.warp.sync -1;
  st.shared.u32 [%r7], %r1;
  bar.warp.sync -1;
  ld.shared.u32 %r8, [table];
)"),
            (std::vector<std::uint32_t>{1, 4, 32, 1}));
}

}  // namespace
}  // namespace emu
