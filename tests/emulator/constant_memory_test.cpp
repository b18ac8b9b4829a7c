// Parameters of kernels and .const variables: kernels read them at any address, and write none.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace emu {
namespace {

class ConstantMemoryTest : public DeviceTest {
 protected:
  static constexpr std::string_view kTable = ".const .align 128 .u32 table[64];";
  // A generic address of the parameter, or of the table, in %rd4.
  static std::string at(bool is_parameter, std::string_view access) {
    return fmt::format("mov.b64 %rd4, {0}; cvta.{1}.u64 %rd4, %rd4; {2}",
                       is_parameter ? "memory" : "table", is_parameter ? "param" : "const", access);
  }
};

TEST_F(ConstantMemoryTest, IsReadAtGenericAddresses) {
  for (const bool is_parameter : {false, true}) {
    const auto words = after<std::uint32_t>(
        at(is_parameter,
           "ld.u32 %r2, [%rd4]; ld.param.u32 %r3, [memory]; sub.u32 %r2, %r2, %r3; "
           "st.global.u32 [%rd3], %r2;"),
        std::vector<std::uint32_t>(32, 1), 32, kTable);
    EXPECT_EQ(words[7] == 0, is_parameter);
  }
}

TEST_F(ConstantMemoryTest, IsNotWritten) {
  for (const bool is_parameter : {false, true}) {
    for (const std::string_view access :
         {"st.u32 [%rd4], %r1;", "st.release.gpu.u32 [%rd4], %r1;", "red.add.u32 [%rd4], %r1;",
          "atom.exch.b32 %r2, [%rd4], %r1;",
          "wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd4], "
          "{%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1}, 16;"}) {
      const bool is_matrix = access.starts_with("wmma");
      if (is_matrix && is_parameter) {
        continue;  // it does not fit into the parameters
      }
      EXPECT_EQ(finding_of(at(is_parameter, access), 32, ".const .align 128 .u32 table[256];"),
                FindingKind::kOutOfBounds)
          << access;
    }
  }
  EXPECT_EQ(finding_of("st.param.u32 [memory], %r1;"), FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of("mov.u64 %rd4, table; discard.global.L2 [%rd4], 128;", 32, kTable),
            FindingKind::kOutOfBounds);
  EXPECT_EQ(finding_of(R"(
  mov.u64 %rd4, table;
  mov.u32 %r2, cells;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 st.shared.u32 [%r2], %r1;
  fence.proxy.async;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r2], 16;)",
                       32, ".const .align 128 .u32 table[64]; .shared .align 16 .b8 cells[16];"),
            FindingKind::kOutOfBounds);
}

}  // namespace
}  // namespace emu
