// wmma: loads, products and stores of whole matrices, in all shapes, types, orders and strides,
// against sums of the matrices' elements.
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/warp_matrix_fixture.hpp"
#include "tests/emulator/wgmma_reference.hpp"

namespace emu {
namespace {

struct WmmaCase {
  unsigned m;
  unsigned n;
  unsigned k;
  std::string_view type;
  Element element;
  unsigned bits;  // of an element
  std::string_view c;
  std::string_view d;
  unsigned a_registers;
  unsigned b_registers;
};

constexpr std::array kCases = {
    WmmaCase{16, 16, 16, "f16", Element::kF16, 16, "f32", "f32", 8, 8},
    WmmaCase{32, 8, 16, "f16", Element::kF16, 16, "f16", "f16", 8, 8},
    WmmaCase{8, 32, 16, "f16", Element::kF16, 16, "f16", "f16", 8, 8},
    WmmaCase{8, 32, 16, "f16", Element::kF16, 16, "f16", "f32", 8, 8},
    WmmaCase{16, 16, 16, "f16", Element::kF16, 16, "f32", "f16", 8, 8},
    WmmaCase{16, 16, 16, "bf16", Element::kBF16, 16, "f32", "f32", 4, 4},
    WmmaCase{32, 8, 16, "bf16", Element::kBF16, 16, "f32", "f32", 8, 2},
    WmmaCase{8, 32, 16, "bf16", Element::kBF16, 16, "f32", "f32", 2, 8},
    WmmaCase{16, 16, 8, "tf32", Element::kTF32, 32, "f32", "f32", 4, 4},
    WmmaCase{16, 16, 16, "s8", Element::kS8, 8, "s32", "s32", 2, 2},
    WmmaCase{32, 8, 16, "u8", Element::kU8, 8, "s32", "s32", 4, 1},
    WmmaCase{8, 32, 16, "s8", Element::kS8, 8, "s32", "s32", 1, 4},
    WmmaCase{8, 8, 32, "s4", Element::kS4, 4, "s32", "s32", 1, 1},
    WmmaCase{8, 8, 32, "u4", Element::kU4, 4, "s32", "s32", 1, 1},
    WmmaCase{8, 8, 128, "b1", Element::kB1, 1, "s32", "s32", 1, 1},
};

// A matrix in memory with some elements behind each row, or column.
struct StoredMatrix {
  unsigned rows;
  unsigned columns;
  unsigned bits;
  bool is_row_major;
  unsigned padding;

  [[nodiscard]] unsigned stride() const { return (is_row_major ? columns : rows) + padding; }
  [[nodiscard]] std::size_t bytes() const {
    return std::size_t{is_row_major ? rows : columns} * stride() * bits / 8;
  }
  [[nodiscard]] std::size_t bit(unsigned row, unsigned column) const {
    const std::size_t element =
        is_row_major ? std::size_t{row} * stride() + column : std::size_t{column} * stride() + row;
    return element * bits;
  }
};

void put_bits(std::vector<std::uint8_t>& bytes, std::size_t first, unsigned bits, unsigned value) {
  for (unsigned i = 0; i < bits; ++i) {
    const std::size_t at = first + i;
    bytes[at / 8] =
        static_cast<std::uint8_t>((bytes[at / 8] & ~(1U << at % 8)) | (value >> i & 1U) << at % 8);
  }
}
unsigned get_bits(const std::vector<std::uint8_t>& bytes, std::size_t first, unsigned bits) {
  unsigned value = 0;
  for (unsigned i = 0; i < bits; ++i) {
    value |= (bytes[(first + i) / 8] >> (first + i) % 8 & 1U) << i;
  }
  return value;
}

std::uint32_t expected(const WmmaCase& wmma, const std::vector<unsigned>& a,
                       const std::vector<unsigned>& b, std::uint32_t c) {
  if (wmma.element == Element::kB1) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      c += a[k] ^ b[k];
    }
    return c;
  }
  const auto numbers = [&](std::vector<unsigned> bits) {
    for (unsigned& each : bits) {
      each = wmma.element == Element::kTF32                     ? each >> 13U
             : wmma.element == Element::kS4 && (each & 8U) != 0 ? each | 0xF0U
                                                                : each;
    }
    return reference::numbers(wmma.element == Element::kS4 ? Element::kS8 : wmma.element, bits,
                              false);
  };
  const auto x = numbers(a);
  const auto y = numbers(b);
  if (wmma.d == "s32") {
    return reference::whole_sum(x, y, c, false);
  }
  if (wmma.c == "f16" && wmma.d == "f16") {
    return reference::half_sum(x, y, c, reference::kHopper);
  }
  if (wmma.c == "f16") {
    c = std::bit_cast<std::uint32_t>(static_cast<float>(reference::number(Element::kF16, c).value));
  }
  // Steps: four elements of TF32, all of the others.
  const std::size_t step = wmma.element == Element::kTF32 ? 4 : x.size();
  for (std::size_t first = 0; first < x.size(); first += step) {
    const auto part = [&](const std::vector<reference::Number>& of) {
      return std::vector(of.begin() + static_cast<std::ptrdiff_t>(first),
                         of.begin() + static_cast<std::ptrdiff_t>(first + step));
    };
    c = reference::float_sum(part(x), part(y), c, reference::kHopper);
  }
  if (wmma.d == "f16") {  // rounded once more
    return reference::half_sum({reference::number(std::bit_cast<float>(c), -126)}, {{1, 0}}, 0,
                               {.kept = 60, .least = -126});
  }
  return c;
}

class WmmaTest : public DeviceTest {
 protected:
  void check(const WmmaCase& wmma, bool is_a_row, bool is_b_row, bool is_c_row, unsigned padding,
             bool is_shared, std::mt19937& random) {
    const auto sum_bits = [](std::string_view type) { return type == "f16" ? 16U : 32U; };
    const unsigned pad = padding * 32 / wmma.bits;
    const StoredMatrix a{wmma.m, wmma.k, wmma.bits, is_a_row, pad};
    const StoredMatrix b{wmma.k, wmma.n, wmma.bits, is_b_row, pad};
    const StoredMatrix c{wmma.m, wmma.n, sum_bits(wmma.c), is_c_row, 2 * padding};
    const StoredMatrix d{wmma.m, wmma.n, sum_bits(wmma.d), !is_c_row, 4 * padding};
    const std::size_t of_b = (a.bytes() + 31) / 32 * 32;
    const std::size_t of_c = of_b + (b.bytes() + 31) / 32 * 32;
    const std::size_t of_d = of_c + (c.bytes() + 31) / 32 * 32;
    std::vector<std::uint8_t> memory((of_d + d.bytes() + 127) / 128 * 128);
    const auto fill = [&](const StoredMatrix& stored, std::size_t first, Element element) {
      const auto made = random_matrix(random, element, std::size_t{stored.rows} * stored.columns);
      for (unsigned i = 0; i < made.size(); ++i) {
        put_bits(memory, first * 8 + stored.bit(i / stored.columns, i % stored.columns),
                 stored.bits, made[i]);
      }
    };
    fill(a, 0, wmma.element);
    fill(b, of_b, wmma.element);
    fill(c, of_c, wmma.c == "f16" ? Element::kF16 : Element::kTF32);
    const std::string shape = fmt::format("m{}n{}k{}", wmma.m, wmma.n, wmma.k);
    const auto order = [](bool is_row) { return is_row ? "row" : "col"; };
    const unsigned c_registers = wmma.m * wmma.n / (wmma.c == "f16" ? 64 : 32);
    const unsigned d_registers = wmma.m * wmma.n / (wmma.d == "f16" ? 64 : 32);
    const unsigned before_c = wmma.a_registers + wmma.b_registers;
    const std::string space = is_shared ? ".shared" : "";
    const std::string base = is_shared ? "%r10" : "%rd1";
    std::string body = fmt::format("  .reg .b32 %q<40>;\n  mov.u32 %r11, {};\n", b.stride());
    if (is_shared) {
      body += "  mov.u32 %r10, buffer;\n  add.u32 %r12, %r10, %r1;\n";
      body += "  cvt.u64.u32 %rd4, %r1; add.s64 %rd5, %rd1, %rd4;\n";
      for (std::size_t i = 0; i < memory.size(); i += 32) {
        body += fmt::format("  ld.global.u8 %rs1, [%rd5+{0}]; st.shared.u8 [%r12+{0}], %rs1;\n", i);
      }
      body += "  bar.warp.sync -1;\n";
    }
    body +=
        fmt::format("  wmma.load.a.sync.aligned.{}.{}{}.{} {}, [{}], {};\n", order(is_a_row), shape,
                    space, wmma.type, register_list(0, wmma.a_registers), base, a.stride());
    body += fmt::format("  wmma.load.b.sync.aligned.{}.{}{}.{} {}, [{}+{}], %r11;\n",
                        order(is_b_row), shape, space, wmma.type,
                        register_list(wmma.a_registers, wmma.b_registers), base, of_b);
    body += fmt::format("  wmma.load.c.sync.aligned.{}.{}{}.{} {}, [{}+{}]{};\n", order(is_c_row),
                        shape, space, wmma.c, register_list(before_c, c_registers), base, of_c,
                        padding == 0 ? "" : fmt::format(", {}", c.stride()));
    const std::string types = wmma.element == Element::kF16
                                  ? fmt::format("{}.{}", wmma.d, wmma.c)
                                  : fmt::format("{0}.{1}.{1}.{2}", wmma.d, wmma.type, wmma.c);
    body += fmt::format(
        "  wmma.mma{}.sync.aligned.{}.{}.{}.{} {}, {}, {}, {};\n",
        wmma.element == Element::kB1 ? ".xor.popc" : "", order(is_a_row), order(is_b_row), shape,
        types, register_list(24, d_registers), register_list(0, wmma.a_registers),
        register_list(wmma.a_registers, wmma.b_registers), register_list(before_c, c_registers));
    body +=
        fmt::format("  wmma.store.d.sync.aligned.{}.{}.{} [%rd1+{}], {}, {};\n", order(!is_c_row),
                    shape, wmma.d, of_d, register_list(24, d_registers), d.stride());
    const auto got = after<std::uint8_t>(body, memory, 32,
                                         is_shared ? ".shared .align 128 .b8 buffer[16384];" : "");
    for (unsigned row = 0; row < wmma.m; ++row) {
      for (unsigned column = 0; column < wmma.n; ++column) {
        std::vector<unsigned> x;
        std::vector<unsigned> y;
        for (unsigned k = 0; k < wmma.k; ++k) {
          x.push_back(get_bits(memory, a.bit(row, k), wmma.bits));
          y.push_back(get_bits(memory, of_b * 8 + b.bit(k, column), wmma.bits));
        }
        const std::uint32_t sum = get_bits(memory, of_c * 8 + c.bit(row, column), c.bits);
        ASSERT_EQ(get_bits(got, of_d * 8 + d.bit(row, column), d.bits), expected(wmma, x, y, sum))
            << shape << ' ' << wmma.type << ' ' << wmma.c << ' ' << wmma.d << " row " << row
            << " column " << column;
      }
    }
  }
};

TEST_F(WmmaTest, IsTheProductOfMatrices) {
  std::mt19937 random(1);
  for (const WmmaCase& wmma : kCases) {
    for (unsigned order = 0; order < 8; ++order) {
      const bool is_a_row = wmma.bits < 8 || order % 2 == 0;
      const bool is_b_row = wmma.bits >= 8 && order / 2 % 2 == 0;
      check(wmma, is_a_row, is_b_row, order / 4 == 0, 4 * (order % 3), order % 4 == 1, random);
    }
  }
}

TEST_F(WmmaTest, Doubles) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> memory(32 + 32 + 64 + 64);
  for (double& number : memory) {
    number = normal(random);
  }
  const auto d = after<double>(R"(  .reg .f64 %q<6>;
  wmma.load.a.sync.aligned.row.m8n8k4.f64 {%q0}, [%rd1];
  wmma.load.b.sync.aligned.row.m8n8k4.global.f64 {%q1}, [%rd1+256];
  wmma.load.c.sync.aligned.col.m8n8k4.f64 {%q2, %q3}, [%rd1+512], 8;
  wmma.mma.sync.aligned.row.row.m8n8k4.f64.f64.f64.f64 {%q4, %q5}, {%q0}, {%q1}, {%q2, %q3};
  wmma.store.d.sync.aligned.row.m8n8k4.f64 [%rd1+1024], {%q4, %q5};)",
                               memory, 32);
  for (unsigned row = 0; row < 8; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      double sum = memory[64 + column * 8 + row];
      for (unsigned k = 0; k < 4; ++k) {
        sum = std::fma(memory[row * 4 + k], memory[32 + k * 8 + column], sum);
      }
      EXPECT_EQ(d[128 + row * 8 + column], sum);
    }
  }
}

// What nothing wrote is told when it is used.
TEST_F(WmmaTest, FindsWhatIsWrong) {
  const auto load = [](std::string_view address) {
    return fmt::format(
        "mov.u32 %r2, buffer; wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {{%r4, %r5}}, "
        "[{}];",
        address);
  };
  const std::string_view buffer = ".shared .align 16 .b8 buffer[256];";
  EXPECT_EQ(finding_of(load("%r2+2"), 32, buffer), FindingKind::kMisaligned);
  EXPECT_EQ(finding_of(load("%r2+16"), 32, buffer), FindingKind::kOutOfBounds);
  EXPECT_EQ(
      finding_of("wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%r4, %r5}, [%r7];", 32, buffer),
      FindingKind::kUninitialized);
  EXPECT_EQ(finding_of("mov.u32 %r3, buffer; and.b32 %r6, %r1, 16; add.u32 %r3, %r3, %r6; "
                       "wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%r4, %r5}, [%r3];",
                       32, buffer),
            FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(load("%r2") +
                           "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 "
                           "{%r6, %r7, %r8, %r9, %r10, %r11, %r12, %r13}, {%r4, %r5}, {%r1, %r1}, "
                           "{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};",
                       32, buffer),
            FindingKind::kUninitialized);
  EXPECT_EQ(finding_of("wmma.store.d.sync.aligned.row.m8n8k32.s32 [%rd1], {%r1, %r1}, 4;"),
            FindingKind::kIllegalOperand);
  // Lanes write what the load reads, with no barrier between them.
  const auto write = [&](std::string_view barrier) {
    return fmt::format(
        "mov.u32 %r2, buffer; mad.lo.u32 %r3, %r1, 8, %r2; st.shared.v2.u32 [%r3], {{%r1, %r1}}; "
        "{} {}",
        barrier, load("%r2"));
  };
  EXPECT_EQ(finding_of(write(""), 32, buffer), FindingKind::kRace);
  EXPECT_TRUE(
      run(kernel(write("bar.warp.sync -1;"), buffer), put(std::vector<std::uint32_t>(32)), 32)
          .is_clean());
}

}  // namespace
}  // namespace emu
