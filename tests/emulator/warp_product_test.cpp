// mma.sync of all dense shapes and types, against the published sums and the manual's layouts.
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

enum class SumKind : std::uint8_t { kFloat, kHalf, kWhole };

struct WarpProductCase {
  unsigned m;
  unsigned k;
  Element a;
  Element b;
  SumKind sums;
  std::string_view suffix = "";  // modifiers behind the types
  std::string_view prefix = "";  // modifiers before the types

  [[nodiscard]] std::string instruction() const {
    const std::string_view sum = sums == SumKind::kFloat  ? "f32"
                                 : sums == SumKind::kHalf ? "f16"
                                                          : "s32";
    return fmt::format("mma.sync.aligned.m{}n8k{}.row.col{}.{}.{}.{}.{}{}", m, k, prefix, sum,
                       name_of(a), name_of(b), sum, suffix);
  }
  static std::string_view name_of(Element element) {
    constexpr std::array<std::string_view, kElementCount> kNames = {
        "f16",  "bf16", "e4m3", "e5m2", "s8", "u8", "e2m3",
        "e3m2", "e2m1", "tf32", "s4",   "u4", "b1"};
    return kNames.at(static_cast<std::size_t>(element));
  }
};

std::vector<WarpProductCase> all_products() {
  using enum Element;
  using enum SumKind;
  std::vector<WarpProductCase> products;
  for (const SumKind sums : {kFloat, kHalf}) {
    products.push_back({16, 8, kF16, kF16, sums});
    products.push_back({16, 16, kF16, kF16, sums});
    for (const Element a : {kE4M3, kE5M2}) {
      for (const Element b : {kE4M3, kE5M2}) {
        products.push_back({16, 16, a, b, sums});
        products.push_back({16, 32, a, b, sums});
      }
    }
  }
  for (const unsigned k : {8U, 16U}) {
    products.push_back({16, k, kBF16, kBF16, kFloat});
    products.push_back({16, k / 2, kTF32, kTF32, kFloat});
  }
  for (const unsigned width : {8U, 4U}) {
    const Element with_sign = width == 8 ? kS8 : kS4;
    const Element without = width == 8 ? kU8 : kU4;
    for (const Element a : {with_sign, without}) {
      for (const Element b : {with_sign, without}) {
        products.push_back({8, 128 / width, a, b, kWhole});
        products.push_back({16, 128 / width, a, b, kWhole, "", ".satfinite"});
        products.push_back({16, 256 / width, a, b, kWhole});
        products.push_back({16, 256 / width, a, b, kWhole, "", ".satfinite"});
      }
    }
  }
  for (const SumKind sums : {kFloat, kHalf}) {
    for (const Element a : {kE4M3, kE5M2, kE2M3, kE3M2, kE2M1}) {
      for (const Element b : {kE4M3, kE5M2, kE2M3, kE3M2, kE2M1}) {
        products.push_back({16, 32, a, b, sums, "", ".kind::f8f6f4"});
      }
    }
  }
  for (const std::string_view operation : {".xor.popc", ".and.popc"}) {
    products.push_back({8, 128, kB1, kB1, kWhole, operation});
    products.push_back({16, 128, kB1, kB1, kWhole, operation});
    products.push_back({16, 256, kB1, kB1, kWhole, operation});
  }
  return products;
}

// 8-bit floats as Hopper takes them: as binary16, of which they keep the values alone.
reference::Number as_half(const reference::Number& number) {
  return reference::number(number.value, -14);
}

std::uint32_t half_or_float(const std::vector<reference::Number>& a,
                            const std::vector<reference::Number>& b, std::uint32_t c,
                            SumKind sums) {
  return sums == SumKind::kHalf ? reference::half_sum(a, b, c, reference::kHopper)
                                : reference::float_sum(a, b, c, reference::kHopper);
}

// Two products, of the first and of the last two bytes of each word, and then the accumulator.
std::uint32_t sum_of_halves(const std::vector<reference::Number>& a,
                            const std::vector<reference::Number>& b, std::uint32_t c,
                            SumKind sums) {
  std::uint32_t sum = 0;
  for (const std::size_t first : {std::size_t{0}, std::size_t{2}}) {
    std::vector<reference::Number> x;
    std::vector<reference::Number> y;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (k % 4 / 2 * 2 == first) {
        x.push_back(as_half(a[k]));
        y.push_back(as_half(b[k]));
      }
    }
    sum = half_or_float(x, y, sum, sums);
  }
  const std::vector<reference::Number> one = {{.value = 1, .exponent = 0}};
  if (sums == SumKind::kHalf) {  // the sum of two halves is exact in binary64
    const double total =
        reference::number(Element::kF16, c).value + reference::number(Element::kF16, sum).value;
    return reference::half_sum({reference::number(total, -14)}, one, 0, {.kept = 52, .least = -14});
  }
  const float total = std::bit_cast<float>(c) + std::bit_cast<float>(sum);
  return std::isnan(total) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(total);
}

std::uint32_t expected(const WarpProductCase& product, const std::vector<unsigned>& a,
                       const std::vector<unsigned>& b, std::uint32_t c) {
  if (product.a == Element::kB1) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      c += product.suffix == ".xor.popc" ? a[k] ^ b[k] : a[k] & b[k];
    }
    return c;
  }
  const auto numbers = [](Element element, std::vector<unsigned> bits) {
    for (unsigned& each : bits) {
      each = element == Element::kTF32                     ? each >> 13U
             : element == Element::kS4 && (each & 8U) != 0 ? each | 0xF0U
                                                           : each;
    }
    return reference::numbers(element == Element::kS4 ? Element::kS8 : element, bits, false);
  };
  const auto x = numbers(product.a, a);
  const auto y = numbers(product.b, b);
  if (product.sums == SumKind::kWhole) {
    return reference::whole_sum(x, y, c, !product.prefix.empty());
  }
  const bool has_bytes = container_bits(product.a) == 8 && product.prefix.empty();
  return has_bytes ? sum_of_halves(x, y, c, product.sums) : half_or_float(x, y, c, product.sums);
}

// Elements of four bits are in the middle of their bytes.
unsigned padding_of(Element element) {
  return element == Element::kE2M1 ? 2 : 0;
}

class WarpProductTest : public DeviceTest {
 protected:
  void check(const WarpProductCase& product, std::mt19937& random) {
    const WarpFragments fragments{.m = product.m,
                                  .k = product.k,
                                  .bits = static_cast<unsigned>(container_bits(product.a)),
                                  .has_halves = product.sums == SumKind::kHalf};
    const auto a = random_matrix(random, product.a, std::size_t{product.m} * product.k);
    const auto b = random_matrix(random, product.b, std::size_t{product.k} * 8);
    std::vector<std::uint32_t> c;
    for (unsigned i = 0; i < product.m * 8; ++i) {
      c.push_back(product.sums == SumKind::kWhole  ? static_cast<std::uint32_t>(random())
                  : product.sums == SumKind::kHalf ? random_element(random, Element::kF16)
                                                   : random_element(random, Element::kTF32));
    }
    std::vector<std::uint32_t> memory(std::size_t{fragments.all()} * 32);
    const auto put = [&](unsigned first, const WarpFragments::Place& place, unsigned bits) {
      memory[(first + place.number) * 32 + place.lane] |= bits << place.shift;
    };
    for (unsigned i = 0; i < a.size(); ++i) {
      put(0, fragments.of_a(i / product.k, i % product.k), a[i] << padding_of(product.a));
    }
    for (unsigned i = 0; i < b.size(); ++i) {
      put(fragments.a(), fragments.of_b(i / 8, i % 8), b[i] << padding_of(product.b));
    }
    const unsigned before_c = fragments.a() + fragments.b();
    for (unsigned i = 0; i < c.size(); ++i) {
      put(before_c, fragments.of_c(i / 8, i % 8), c[i]);
    }
    const auto d = after<std::uint32_t>(product_body(product.instruction(), fragments), memory, 32);
    for (unsigned i = 0; i < c.size(); ++i) {
      std::vector<unsigned> row;
      std::vector<unsigned> column;
      for (unsigned k = 0; k < product.k; ++k) {
        row.push_back(a[i / 8 * product.k + k]);
        column.push_back(b[k * 8 + i % 8]);
      }
      const WarpFragments::Place place = fragments.of_c(i / 8, i % 8);
      const std::uint32_t word = d[(before_c + fragments.c() + place.number) * 32 + place.lane];
      const std::uint32_t got = fragments.has_halves ? word >> place.shift & 0xFFFFU : word;
      ASSERT_EQ(got, expected(product, row, column, c[i]))
          << product.instruction() << " row " << i / 8 << " column " << i % 8;
    }
  }
};

TEST_F(WarpProductTest, IsThePublishedSum) {
  std::mt19937 random(3);
  for (int round = 0; round < 4; ++round) {
    for (const WarpProductCase& product : all_products()) {
      check(product, random);
    }
  }
}

// Doubles: fused multiply-adds along K, rounded as the instruction says.
TEST_F(WarpProductTest, Doubles) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (const unsigned k : {4U, 8U, 16U}) {
    for (const unsigned m : {8U, 16U}) {
      if (m == 8 && k != 4) {
        continue;
      }
      const unsigned a_count = m * k / 32;
      const unsigned b_count = k / 4;
      const unsigned c_count = m / 4;
      std::vector<double> memory((a_count + b_count + 2 * c_count) * std::size_t{32});
      for (double& number : memory) {
        number = normal(random);
      }
      std::string body =
          fmt::format("  .reg .f64 %q<{}>;\n  add.s64 %rd3, %rd3, %rd2;\n", memory.size() / 32);
      const unsigned inputs = a_count + b_count + c_count;
      for (unsigned i = 0; i < inputs; ++i) {
        body += fmt::format("  ld.global.f64 %q{}, [%rd3+{}];\n", i, i * 256);
      }
      body +=
          fmt::format("  mma.sync.aligned.m{}n8k{}.row.col.f64.f64.f64.f64 {}, {}, {}, {};\n", m, k,
                      register_list(inputs, c_count), register_list(0, a_count),
                      register_list(a_count, b_count), register_list(a_count + b_count, c_count));
      for (unsigned i = 0; i < c_count; ++i) {
        body += fmt::format("  st.global.f64 [%rd3+{}], %q{};\n", (inputs + i) * 256, inputs + i);
      }
      const auto d = after<double>(body, memory, 32);
      for (unsigned row = 0; row < m; ++row) {
        for (unsigned column = 0; column < 8; ++column) {
          const unsigned lane = row % 8 * 4 + column / 2;
          const unsigned number = row / 8 * 2 + column % 2;
          double sum = memory[(a_count + b_count + number) * 32 + lane];
          for (unsigned i = 0; i < k; ++i) {
            const double x = memory[(i / 4 * (m / 8) + row / 8) * 32 + row % 8 * 4 + i % 4];
            const double y = memory[(a_count + i / 4) * 32 + column * 4 + i % 4];
            sum = std::fma(x, y, sum);
          }
          ASSERT_EQ(d[(inputs + number) * 32 + lane], sum) << m << ' ' << k;
        }
      }
    }
  }
}

TEST_F(WarpProductTest, DoublesAreRoundedAsTheInstructionSays) {
  const auto sum = [&](std::string_view rounding) {
    const std::string body = fmt::format(R"(  .reg .f64 %q<4>;
  mov.f64 %q0, 0d3FF0000000000000;
  mov.f64 %q1, 0d3C00000000000000;
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{} {{%q2, %q3}}, {{%q0}}, {{%q1}}, {{%q0, %q0}};
  add.s64 %rd3, %rd3, %rd2;
  st.global.f64 [%rd3], %q2;)",
                                         rounding);
    return after<double>(body, std::vector<double>(32), 32).front();
  };
  EXPECT_EQ(sum(""), 1.0);
  EXPECT_EQ(sum(".rz"), 1.0);
  EXPECT_EQ(sum(".rm"), 1.0);
  EXPECT_GT(sum(".rp"), 1.0);
}

// The first m8n8k4 is four products of eight lanes each, whose places the manual gives by formulas.
TEST_F(WarpProductTest, QuadPairs) {
  std::mt19937 random(5);
  for (unsigned form = 0; form < 12; ++form) {
    const bool is_a_row = form % 2 == 0;
    const bool is_b_column = form / 2 % 2 == 0;
    const bool is_c_short = form / 4 != 0;
    const bool is_d_short = form / 4 == 2;
    const unsigned c_count = is_c_short ? 4 : 8;
    const unsigned d_count = is_d_short ? 4 : 8;
    std::vector<std::uint32_t> memory((4 + c_count + d_count) * std::size_t{32});
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i] = i < 128 || is_c_short ? random_element(random, Element::kF16) |
                                              random_element(random, Element::kF16) << 16U
                                        : random_element(random, Element::kTF32);
    }
    std::string body = "  .reg .b32 %q<20>;\n";
    for (unsigned i = 0; i < 4 + c_count; ++i) {
      body += fmt::format("  ld.global.b32 %q{}, [%rd3+{}];\n", i, i * 128);
    }
    body += fmt::format("  mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{} {}, {}, {}, {};\n",
                        is_a_row ? "row" : "col", is_b_column ? "col" : "row",
                        is_d_short ? "f16" : "f32", is_c_short ? "f16" : "f32",
                        register_list(4 + c_count, d_count), register_list(0, 2),
                        register_list(2, 2), register_list(4, c_count));
    for (unsigned i = 0; i < d_count; ++i) {
      body += fmt::format("  st.global.b32 [%rd3+{}], %q{};\n", (4 + c_count + i) * 128,
                          4 + c_count + i);
    }
    const auto after_it = after<std::uint32_t>(body, memory, 32);
    const auto half = [&](const std::vector<std::uint32_t>& words, unsigned first, unsigned lane,
                          unsigned i) {
      const std::uint32_t word = words[(first + i / 2) * 32 + lane];
      return static_cast<float>(
          reference::number(Element::kF16, word >> (16 * (i % 2)) & 0xFFFFU).value);
    };
    // Element of A (line: row) or B (line: column) of one of the products.
    const auto operand = [&](unsigned first, bool holds_line, unsigned product, unsigned line,
                             unsigned k) {
      const unsigned group = product * 4 + line / 4 * 16;
      return holds_line ? half(memory, first, group + line % 4, k)
                        : half(memory, first, group + k, line % 4);
    };
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned low = lane < 16 ? 0 : 4;
        const auto place = [&](bool is_short) {
          return is_short
                     ? std::pair{lane % 4 + low, i}
                     : std::pair{(lane & 1U) + (i & 2U) + low, (i & 4U) + (lane & 2U) + (i & 1U)};
        };
        const auto [row, column] = place(is_d_short);
        float sum = 0;
        for (unsigned k = 0; k < 4; ++k) {
          sum = std::fma(operand(0, is_a_row, lane / 4 % 4, row, k),
                         operand(2, is_b_column, lane / 4 % 4, column, k), sum);
        }
        // C of the same row and column, which may be another lane's.
        float c = 0;
        for (unsigned other = 0; other < 32; ++other) {
          for (unsigned j = 0; j < 8; ++j) {
            const unsigned high = other < 16 ? 0 : 4;
            const auto at = is_c_short ? std::pair{other % 4 + high, j}
                                       : std::pair{(other & 1U) + (j & 2U) + high,
                                                   (j & 4U) + (other & 2U) + (j & 1U)};
            if (other / 4 % 4 == lane / 4 % 4 && at == std::pair{row, column}) {
              c = is_c_short ? half(memory, 4, other, j)
                             : std::bit_cast<float>(memory[(4 + j) * 32 + other]);
            }
          }
        }
        sum += c;
        if (is_d_short) {
          const float got = half(after_it, 4 + c_count, lane, i);
          const auto want = static_cast<float>(
              reference::number(Element::kF16, reference::half_sum({{sum, 0}}, {{1, 0}}, 0,
                                                                   {.kept = 40, .least = 0}))
                  .value);
          ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << form;
        } else {
          const float got =
              std::bit_cast<float>(after_it[(4 + c_count + i) * std::size_t{32} + lane]);
          ASSERT_TRUE(got == sum || (std::isnan(got) && std::isnan(sum))) << form << ' ' << lane;
        }
      }
    }
  }
}

// Rows of A and columns of B times powers of two, which bytes of some of the lanes hold.
TEST_F(WarpProductTest, BlockScales) {
  std::mt19937 random(6);
  const WarpFragments fragments{.m = 16, .k = 32, .bits = 8};
  for (unsigned round = 0; round < 16; ++round) {
    const unsigned byte_a = round % 4;
    const unsigned thread_a = round / 4 % 2;
    const unsigned byte_b = round / 2 % 4;
    const unsigned thread_b = round / 4;
    std::vector<std::uint32_t> memory(std::size_t{16} * 32);
    for (std::uint32_t& word : memory) {  // e4m3, and sums of the same size
      word = static_cast<std::uint32_t>(random()) & 0xBFBFBFBFU;
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 10; i < 12; ++i) {
        memory[i * 32 + lane] = 0x7A7B7C7DU + (static_cast<std::uint32_t>(random()) & 0x07070707U);
      }
    }
    std::string body = "  .reg .b32 %q<16>;\n";
    for (unsigned i = 0; i < 12; ++i) {
      body += fmt::format("  ld.global.b32 %q{}, [%rd3+{}];\n", i, i * 128);
    }
    body += fmt::format("  mov.u16 %rs1, {};\n", byte_a);
    body += fmt::format(
        "  mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
        ".f32.e4m3.e4m3.f32.ue8m0 {}, {}, {}, {}, %q10, {{%rs1, {}}}, {{%q11}}, {{{}, {}}};\n",
        register_list(12, 4), register_list(0, 4), register_list(4, 2), register_list(6, 4),
        thread_a, byte_b, thread_b);
    for (unsigned i = 12; i < 16; ++i) {
      body += fmt::format("  st.global.b32 [%rd3+{}], %q{};\n", i * 128, i);
    }
    const auto d = after<std::uint32_t>(body, memory, 32);
    const auto get = [&](unsigned first, const WarpFragments::Place& place) {
      return memory[(first + place.number) * 32 + place.lane] >> place.shift;
    };
    for (unsigned row = 0; row < 16; ++row) {
      for (unsigned column = 0; column < 8; ++column) {
        std::vector<unsigned> x;
        std::vector<unsigned> y;
        for (unsigned k = 0; k < 32; ++k) {
          x.push_back(get(0, fragments.of_a(row, k)) & 0xFFU);
          y.push_back(get(4, fragments.of_b(k, column)) & 0xFFU);
        }
        const unsigned lane_a = row % 8 * 4 + thread_a * 2 + row / 8;
        const unsigned lane_b = column * 4 + thread_b;
        const unsigned scale_a = memory[10 * 32 + lane_a] >> (8 * byte_a) & 0xFFU;
        const unsigned scale_b = memory[11 * 32 + lane_b] >> (8 * byte_b) & 0xFFU;
        const auto numbers_of = [](const std::vector<unsigned>& bits, unsigned scale) {
          return reference::numbers(Element::kE4M3, bits, false, static_cast<int>(scale));
        };
        const WarpFragments::Place place = fragments.of_c(row, column);
        ASSERT_EQ(d[(12 + place.number) * 32 + place.lane],
                  reference::float_sum(numbers_of(x, scale_a), numbers_of(y, scale_b),
                                       get(6, place), reference::kHopper))
            << round << ' ' << row << ' ' << column;
      }
    }
  }
}

TEST_F(WarpProductTest, FindsWhatIsWrong) {
  const std::string product =
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r2, %r3}, {%r4}, "
      "{%f1, %f1, %f1, %f1};";
  const std::string begin = "mov.f32 %f1, 0f00000000; mov.b32 %r2, 0; mov.b32 %r3, 0;";
  EXPECT_EQ(finding_of(begin + product), FindingKind::kUninitialized);
  EXPECT_EQ(finding_of(begin + "mov.b32 %r4, 0; setp.lt.u32 %p1, %r1, 16; @%p1 " + product),
            FindingKind::kDivergent);
  const auto scaled = [](std::string_view choice) {
    return fmt::format(
        "mov.b32 %r2, 0; mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale"
        ".f32.e4m3.e2m1.f32.ue8m0 {{%r4, %r5, %r6, %r7}}, {{%r2, %r2, %r2, %r2}}, {{%r2, %r2}}, "
        "{{%r2, %r2, %r2, %r2}}, %r2, {}, %r2, {{0, 0}};",
        choice);
  };
  EXPECT_TRUE(run(kernel(scaled("{0, 1}")), put(std::vector<std::uint32_t>(32)), 32).is_clean());
  EXPECT_EQ(finding_of(scaled("{0, 2}")), FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of(scaled("{4, 0}")), FindingKind::kIllegalOperand);
  EXPECT_EQ(finding_of("cvt.u16.u32 %rs1, %r1; " + scaled("{%rs1, 0}")),
            FindingKind::kIllegalOperand);
}

TEST_F(WarpProductTest, RefusesByName) {
  const auto message = [&](const std::string& instruction) {
    try {
      device_.load(kernel("  " + instruction + ";"));
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  const std::string operands = " {%f2, %f3, %f4, %f5}, {%r2, %r3}, {%r4}, {%f2, %f3, %f4, %f5}";
  EXPECT_EQ(message("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32" + operands), "loaded");
  EXPECT_NE(message("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" + operands)
                .find("sparse matrices are unsupported"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k8.row.col.satfinite.f32.f16.f16.f32" + operands)
                .find("unsupported modifier .satfinite"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32" + operands)
                .find("expected .row.col"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32" + operands)
                .find("unsupported shape for this type; expected .m8n8k4 or .m16n8k8 or .m16n8k16"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32" + operands)
                .find("unsupported product of these types"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k32.row.col.f32.e2m1.e2m1.f32" + operands)
                .find("unsupported type of a matrix"),
            std::string::npos);
  EXPECT_NE(message("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f16" + operands)
                .find("unsupported types of C and D together"),
            std::string::npos);
}

}  // namespace
}  // namespace emu
