// ldmatrix and stmatrix of all shapes, and movmatrix, against the places of their elements.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/warp_matrix_fixture.hpp"

namespace emu {
namespace {

constexpr std::string_view kRowBuffer = ".shared .align 16 .b8 buffer[512];";

class MatrixMovesTest : public DeviceTest {
 protected:
  // Rows of 16 bytes, whose places in shared memory are mixed: row i is at lane i's address.
  struct Rows {
    std::vector<unsigned> places;
    std::vector<std::uint8_t> bytes;

    [[nodiscard]] unsigned byte(unsigned row, unsigned at) const {
      return bytes[places[row] * 16 + at];
    }
  };
  static Rows random_rows(std::mt19937& random) {
    Rows rows{.places = std::vector<unsigned>(32), .bytes = std::vector<std::uint8_t>(512)};
    std::iota(rows.places.begin(), rows.places.end(), 0U);
    std::ranges::shuffle(rows.places, random);
    for (std::uint8_t& byte : rows.bytes) {
      byte = static_cast<std::uint8_t>(random());
    }
    return rows;
  }
  // Copies the rows to shared memory, and has a lane's address in %r11. Memory has the bytes, and
  // then 32 offsets.
  static std::string begin() {
    std::string body = "  mov.u32 %r10, buffer;\n  mad.lo.u32 %r12, %r1, 16, %r10;\n";
    body += "  mul.wide.u32 %rd4, %r1, 16;\n  add.s64 %rd5, %rd1, %rd4;\n";
    body += "  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5];\n";
    body += "  st.shared.v4.u32 [%r12], {%r4, %r5, %r6, %r7};\n";
    body += "  ld.global.u32 %r11, [%rd3+512];\n  add.u32 %r11, %r11, %r10;\n";
    return body + "  bar.warp.sync -1;\n";
  }
  static std::vector<std::uint32_t> memory_of(const Rows& rows) {
    std::vector<std::uint32_t> memory(128 + 32 + 128);
    std::memcpy(memory.data(), rows.bytes.data(), rows.bytes.size());
    for (unsigned i = 0; i < 32; ++i) {
      memory[128 + i] = rows.places[i] * 16;
    }
    return memory;
  }
  // The registers of each lane after a load.
  std::vector<std::uint32_t> loaded(const Rows& rows, std::string_view modifiers, unsigned count) {
    std::string body = "  .reg .b32 %q<4>;\n" + begin();
    body +=
        fmt::format("  ldmatrix.sync.aligned.{} {}, [%r11];\n", modifiers, register_list(0, count));
    for (unsigned i = 0; i < count; ++i) {
      body += fmt::format("  st.global.u32 [%rd3+{}], %q{};\n", 640 + i * 128, i);
    }
    auto all = after<std::uint32_t>(body, memory_of(rows), 32, kRowBuffer);
    all.erase(all.begin(), all.begin() + 160);
    return all;
  }
};

TEST_F(MatrixMovesTest, TransposedBytes) {
  std::mt19937 random(1);
  for (const unsigned count : {1U, 2U}) {
    const Rows rows = random_rows(random);
    const auto got = loaded(rows, fmt::format("m16n16.x{}.trans.shared.b8", count), 2 * count);
    for (unsigned i = 0; i < 2 * count * 32; ++i) {
      const unsigned lane = i % 32;
      for (unsigned part = 0; part < 4; ++part) {
        // Four consecutive rows, at a column in each of two registers.
        const unsigned row = i / 64 * 16 + lane % 4 * 4 + part;
        ASSERT_EQ(got[i] >> (8 * part) & 0xFFU, rows.byte(row, lane / 4 + i / 32 % 2 * 8));
      }
    }
  }
}

// The layouts of CUTLASS (cute/atom/copy_traits_sm100.hpp), whose strides of threads and values in
// bits are of rows of 128 bits: it moves the middle bytes of a pair of registers from one to the
// other, and has stored what it loads so.
TEST_F(MatrixMovesTest, TransposedBytesAreLaidOutAsCutlassHasThem) {
  std::mt19937 random(6);
  const Rows rows = random_rows(random);
  const auto got = loaded(rows, "m16n16.x1.trans.shared.b8", 2);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto byte = [&](unsigned number) {
      return got[number / 4 * 32 + lane] >> (8 * (number % 4)) & 0xFFU;
    };
    constexpr std::array<unsigned, 8> kMoved = {0, 1, 4, 5, 2, 3, 6, 7};
    for (unsigned value = 0; value < 8; ++value) {
      const unsigned bit =
          lane % 4 * 256 + lane / 4 * 8 + value % 2 * 128 + value / 2 % 2 * 64 + value / 4 * 1024;
      const unsigned row = bit / 128;
      // The thread that gives the row's address.
      const unsigned thread = row % 2 + row / 8 * 2 + row / 2 % 4 * 4;
      ASSERT_EQ(byte(kMoved.at(value)), rows.byte(thread, bit % 128 / 8)) << lane << ' ' << value;
    }
  }
}

TEST_F(MatrixMovesTest, UnpacksElements) {
  std::mt19937 random(2);
  for (const unsigned bits : {4U, 6U}) {
    const std::string format = bits == 4 ? "b4x16_p64" : "b6x16_p32";
    for (const unsigned count : {1U, 2U, 4U}) {
      const Rows rows = random_rows(random);
      const auto element = [&](unsigned row, unsigned column) {
        unsigned value = 0;
        for (unsigned i = 0; i < bits; ++i) {
          const unsigned at = column * bits + i;
          value |= (rows.byte(row, at / 8) >> at % 8 & 1U) << i;
        }
        return value;
      };
      const auto got = loaded(rows, fmt::format("m8n16.x{}.shared.b8x16.{}", count, format), count);
      for (unsigned i = 0; i < count * 32; ++i) {
        for (unsigned part = 0; part < 4; ++part) {
          ASSERT_EQ(got[i] >> (8 * part) & 0xFFU,
                    element(i / 32 * 8 + i % 32 / 4, i % 4 * 4 + part));
        }
      }
      if (count < 4) {
        const auto turned = loaded(
            rows, fmt::format("m16n16.x{}.trans.shared::cta.b8x16.{}", count, format), 2 * count);
        for (unsigned i = 0; i < 2 * count * 32; ++i) {
          for (unsigned part = 0; part < 4; ++part) {
            const unsigned row = i / 64 * 16 + i % 4 * 4 + part;
            ASSERT_EQ(turned[i] >> (8 * part) & 0xFFU, element(row, i % 32 / 4 + i / 32 % 2 * 8));
          }
        }
      }
    }
  }
}

TEST_F(MatrixMovesTest, GenericAddress) {
  std::mt19937 random(3);
  const Rows rows = random_rows(random);
  std::string body = "  .reg .b32 %q<1>;\n" + begin();
  body += "  cvt.u64.u32 %rd6, %r11;\n  cvta.shared.u64 %rd6, %rd6;\n";
  body += "  ldmatrix.sync.aligned.m8n8.x1.b16 {%q0}, [%rd6];\n  st.global.u32 [%rd3+640], %q0;\n";
  const auto got = after<std::uint32_t>(body, memory_of(rows), 32, kRowBuffer);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned byte = 0; byte < 4; ++byte) {
      ASSERT_EQ(got[160 + lane] >> (8 * byte) & 0xFFU, rows.byte(lane / 4, lane % 4 * 4 + byte));
    }
  }
}

TEST_F(MatrixMovesTest, GenericAddressesAreOfTheBlocksSharedMemory) {
  for (const std::string_view move : {"ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%rd1];",
                                      "stmatrix.sync.aligned.m8n8.x1.b16 [%rd1], {%r1};"}) {
    EXPECT_EQ(finding_of(move), FindingKind::kOutOfBounds);
  }
}

TEST_F(MatrixMovesTest, LanesDoNotWriteOverWhatOthersRead) {
  for (const bool is_right : {false, true}) {
    const std::string body = fmt::format(R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, buffer;
  shl.b32 %r3, %r1, 2;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r4}}, [%r2];
  {}
  st.shared.u32 [%r3], %r4;)",
                                         is_right ? "bar.warp.sync -1;" : "");
    if (is_right) {
      const Report report = run(kernel(body, kRowBuffer), put(std::vector{0}), 32);
      EXPECT_TRUE(report.is_clean());
    } else {
      EXPECT_EQ(finding_of(body, 32, kRowBuffer), FindingKind::kRace);
    }
  }
}

TEST_F(MatrixMovesTest, StoresTransposedBytes) {
  std::mt19937 random(4);
  for (const unsigned count : {1U, 2U, 4U}) {
    const Rows rows = random_rows(random);
    std::vector<std::uint32_t> memory = memory_of(rows);
    for (unsigned i = 160; i < memory.size(); ++i) {
      memory[i] = static_cast<std::uint32_t>(random());
    }
    std::string body = "  .reg .b32 %q<4>;\n" + begin();
    for (unsigned i = 0; i < count; ++i) {
      body += fmt::format("  ld.global.u32 %q{}, [%rd3+{}];\n", i, 640 + i * 128);
    }
    body += fmt::format("  stmatrix.sync.aligned.m16n8.x{}.trans.shared.b8 [%r11], {};\n", count,
                        register_list(0, count));
    body += "  bar.warp.sync -1;\n  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r12];\n";
    body += "  st.global.v4.u32 [%rd5], {%r4, %r5, %r6, %r7};\n";
    const auto got = after<std::uint32_t>(body, memory, 32, kRowBuffer);
    for (unsigned i = 0; i < count * 32; ++i) {
      for (unsigned part = 0; part < 4; ++part) {
        const unsigned row = i / 32 * 8 + i % 4 * 2 + part % 2;
        const unsigned at = rows.places[row] * 16 + i % 32 / 4 + part / 2 * 8;
        ASSERT_EQ(got[at / 4] >> (8 * (at % 4)) & 0xFFU, memory[160 + i] >> (8 * part) & 0xFFU);
      }
    }
  }
}

TEST_F(MatrixMovesTest, TransposesRegisters) {
  std::vector<std::uint32_t> memory(32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    memory[i] = i * 2 | (i * 2 + 1) << 16U;  // element (row, column) is 8 * row + column
  }
  const auto got = after<std::uint32_t>(
      "  ld.global.u32 %r2, [%rd3];\n  movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;\n"
      "  st.global.u32 [%rd3], %r3;",
      memory, 32);
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i / 2] >> (16 * (i % 2)) & 0xFFFFU, i % 8 * 8 + i / 8);
  }
}

// An element that nothing wrote is one wherever it moves.
TEST_F(MatrixMovesTest, FindsWhatIsWrong) {
  // Lane 5 has row 1, columns 2 and 3: lanes 8 and 12 have them in columns.
  const auto used_by = [](unsigned lane) {
    return fmt::format(
        "setp.ne.u32 %p1, %r1, 5; @%p1 mov.u32 %r2, 1; movmatrix.sync.aligned.m8n8.trans.b16 %r3, "
        "%r2; setp.ne.u32 %p2, %r1, {}; @%p2 bra DONE; and.b32 %r3, %r3, 1; mul.wide.u32 %rd4, "
        "%r3, 4; "
        "add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r1; DONE:",
        lane);
  };
  EXPECT_EQ(finding_of(used_by(8)), FindingKind::kUninitialized);
  EXPECT_EQ(finding_of(used_by(12)), FindingKind::kUninitialized);
  EXPECT_TRUE(run(kernel(used_by(9)), put(std::vector<std::uint32_t>(32)), 32).is_clean());
  EXPECT_EQ(finding_of("setp.lt.u32 %p1, %r1, 8; @%p1 movmatrix.sync.aligned.m8n8.trans.b16 %r3, "
                       "%r1;"),
            FindingKind::kDivergent);
  EXPECT_ANY_THROW(device_.load(kernel("  movmatrix.sync.aligned.m8n8.b16 %r3, %r1;")));
  EXPECT_ANY_THROW(
      device_.load(kernel("  ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r2, %r3}, [%r1];")));
  EXPECT_ANY_THROW(device_.load(kernel(
      "  ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, "
      "%r9}, [%r1];")));
}

}  // namespace
}  // namespace emu
