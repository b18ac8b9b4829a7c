// The arithmetic of tensor cores, all at once and one by one, against the published rules in
// binary64.
#include "emulator/operations/tensor_product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/operations/matrix_descriptor.hpp"
#include "tests/emulator/wgmma_reference.hpp"

namespace emu {
namespace {

struct Operands {
  Element a;
  Element b;
};
constexpr std::array kAllOperands = {
    Operands{Element::kF16, Element::kF16},   Operands{Element::kBF16, Element::kBF16},
    Operands{Element::kE4M3, Element::kE4M3}, Operands{Element::kE4M3, Element::kE5M2},
    Operands{Element::kE5M2, Element::kE4M3}, Operands{Element::kE5M2, Element::kE5M2},
    Operands{Element::kS8, Element::kS8},     Operands{Element::kS8, Element::kU8},
    Operands{Element::kU8, Element::kS8},     Operands{Element::kU8, Element::kU8}};

using Maker = unsigned (*)(std::mt19937&, Element);

unsigned width(Element element) {
  return 1U << bits_of(element);
}
// Of exponents near each other, as numbers of models are.
unsigned ordinary(std::mt19937& random, Element element) {
  const std::array<unsigned, 4> ones = {0x3C00, 0x3F80, 0x38, 0x3C};
  const std::array<unsigned, 4> units = {1U << 10U, 1U << 7U, 1U << 3U, 1U << 2U};
  if (!is_float(element)) {
    return random() % 256;
  }
  const auto i = static_cast<std::size_t>(element);
  const unsigned sign = random() % 2 * (width(element) / 2);
  return sign | (ones.at(i) + (random() % 5 - 2U) * units.at(i) + random() % units.at(i));
}
unsigned any(std::mt19937& random, Element element) {
  return random() % width(element);
}
// Ends of the ranges, and what is hard to add up.
unsigned extreme(std::mt19937& random, Element element) {
  const unsigned sign = random() % 2 * (width(element) / 2);
  const std::array<std::vector<unsigned>, 6> numbers = {
      {{0, 1, 0x3FF, 0x400, 0x3C00, 0x3FFF, 0x7BFF, 0x7400, 0x7C00, 0x7E00},
       {0, 1, 0x7F, 0x80, 0x3F80, 0x3FFF, 0x7F7F, 0x7F80, 0x7FC0, 0x0100, 0x2680, 0x2700, 0x5D80},
       {0, 1, 7, 8, 0x38, 0x3F, 0x7E, 0x78, 0x7F},
       {0, 1, 3, 4, 0x3C, 0x3F, 0x7B, 0x7C, 0x7E},
       {0, 1, 0x7F, 0x80, 0xFF},
       {0, 1, 0x7F, 0x80, 0xFF}}};
  const auto& of = numbers.at(static_cast<std::size_t>(element));
  const unsigned at = of[random() % of.size()];
  return is_float(element) ? sign | at : at;
}
// All alike and as large as can be for their exponent: sums come to the end of 32 bits.
unsigned full(std::mt19937& random, Element element) {
  const std::array<unsigned, 6> numbers = {0x3FFF, 0x3FFF, 0x3F, 0x3F, 0x80, 0xFF};
  return random() % 64 == 0 ? any(random, element) : numbers.at(static_cast<std::size_t>(element));
}
// Mostly zeros.
unsigned sparse(std::mt19937& random, Element element) {
  return random() % 8 != 0 ? 0 : ordinary(random, element);
}

std::uint32_t accumulator(std::mt19937& random, bool is_float_sum) {
  if (!is_float_sum) {
    return static_cast<std::uint32_t>(random());
  }
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return static_cast<std::uint32_t>(random());
    case 2: {
      constexpr std::array<std::uint32_t, 12> kNumbers = {
          0x80000000, 1,          0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF,
          0x7F800000, 0xFF800000, 0x7FC00001, 0xFFFFFFFF, 0x0D000000, 0x0C7FFFFF};
      return kNumbers.at(random() % kNumbers.size());
    }
    case 3:
      return 0x407FFFFF;
    default:
      return static_cast<std::uint32_t>(random() % 2 << 31U | (0x3E000000 + random() % 0x04000000));
  }
}

Lines made(std::mt19937& random, Element element, std::size_t count, Maker maker) {
  Lines lines{.element = element,
              .depth = 32 / bytes_of(element),
              .is_negated = is_float(element) && random() % 4 == 0};
  lines.resize(count);
  for (std::size_t i = 0; i < count * lines.depth; ++i) {
    lines.set(i / lines.depth, i % lines.depth, maker(random, element));
  }
  return lines;
}

std::vector<unsigned> line_of(const Lines& lines, std::size_t line) {
  std::vector<unsigned> elements;
  for (std::size_t k = 0; k < lines.depth; ++k) {
    elements.push_back(lines.get(line, k));
  }
  return elements;
}

// Computes what multiply_add does, each element by itself.
void multiply_add_singly(const Lines& a, const Lines& b, std::span<std::uint32_t> d,
                         const SumRule& rule) {
  const auto whole = [](const Lines& lines, std::size_t line, std::size_t k) {
    const std::uint32_t bits = lines.get(line, k);
    return lines.element == Element::kS8 ? static_cast<std::int8_t>(bits) : static_cast<int>(bits);
  };
  for (std::size_t row = 0; row < a.count; ++row) {
    for (std::size_t column = 0; column < b.count; ++column) {
      std::uint32_t& sum = d[row * b.count + column];
      if (is_float(a.element)) {
        sum = single_sum(a, row, b, column, sum, rule);
        continue;
      }
      std::int64_t total = static_cast<std::int32_t>(sum);
      for (std::size_t k = 0; k < a.depth; ++k) {
        total += whole(a, row, k) * whole(b, column, k);
      }
      if (rule.is_saturating) {
        total = std::clamp<std::int64_t>(total, std::numeric_limits<std::int32_t>::min(),
                                         std::numeric_limits<std::int32_t>::max());
      }
      sum = static_cast<std::uint32_t>(total);
    }
  }
}

TEST(TensorProduct, IsThePublishedSum) {
  constexpr std::array<Maker, 5> kMakers = {&ordinary, &any, &extreme, &full, &sparse};
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    for (const Operands& operands : kAllOperands) {
      const Lines a = made(random, operands.a, 3 + random() % 6, kMakers.at(random() % 5));
      const Lines b = made(random, operands.b, 8 * (1 + random() % 5), kMakers.at(random() % 5));
      std::vector<std::uint32_t> d(a.count * b.count);
      for (std::uint32_t& word : d) {
        word = accumulator(random, is_float(operands.a));
      }
      std::vector<std::uint32_t> want = d;
      for (std::size_t row = 0; row < a.count; ++row) {
        for (std::size_t column = 0; column < b.count; ++column) {
          std::uint32_t& word = want[row * b.count + column];
          word = reference::sum(a.element, line_of(a, row), a.is_negated, b.element,
                                line_of(b, column), b.is_negated, word);
        }
      }
      std::vector<std::uint32_t> singly = d;
      const SumRule rule{.precision = wgmma_precision(operands.a)};
      multiply_add(a, b, d, rule);
      multiply_add_singly(a, b, singly, rule);
      for (std::size_t i = 0; i < d.size(); ++i) {
        ASSERT_EQ(d[i], want[i]) << fmt::format("seed {} operands {} {} at {}: {:#x} {:#x}", seed,
                                                int(operands.a), int(operands.b), i, d[i], want[i]);
        ASSERT_EQ(singly[i], want[i])
            << fmt::format("singly: seed {} operands {} {} at {}: {:#x} {:#x}", seed,
                           int(operands.a), int(operands.b), i, singly[i], want[i]);
      }
    }
  }
}

// Far more sums than the reference can make.
TEST(TensorProduct, AllAtOnceIsOneByOne) {
  constexpr std::array<Maker, 5> kMakers = {&ordinary, &any, &extreme, &full, &sparse};
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    for (const Operands& operands : kAllOperands) {
      const Lines a = made(random, operands.a, 16, kMakers.at(random() % 5));
      const Lines b = made(random, operands.b, 64, kMakers.at(random() % 5));
      std::vector<std::uint32_t> d(a.count * b.count);
      for (std::uint32_t& word : d) {
        word = accumulator(random, is_float(operands.a));
      }
      std::vector<std::uint32_t> singly = d;
      const SumRule rule{.precision = wgmma_precision(operands.a)};
      multiply_add(a, b, d, rule);
      multiply_add_singly(a, b, singly, rule);
      ASSERT_EQ(d, singly) << int(operands.a) << ' ' << int(operands.b);
    }
  }
}

// With scales from the least to NaN, most of them near 1.
std::vector<std::uint8_t> made_scales(std::mt19937& random, std::size_t count) {
  constexpr std::array<std::uint8_t, 6> kNumbers = {0, 1, 64, 200, 254, 255};
  std::vector<std::uint8_t> scales;
  for (std::size_t i = 0; i < count; ++i) {
    scales.push_back(random() % 4 == 0 ? kNumbers.at(random() % kNumbers.size())
                                       : static_cast<std::uint8_t>(110 + random() % 30));
  }
  return scales;
}

TEST(TensorProduct, IsThePublishedSumOfBlackwell) {
  constexpr std::array<Maker, 4> kMakers = {&ordinary, &any, &extreme, &full};
  constexpr std::array kSmall = {Element::kE2M3, Element::kE3M2, Element::kE2M1};
  std::mt19937 random(9);
  for (int round = 0; round < 400; ++round) {
    Operands operands = kAllOperands.at(random() % kAllOperands.size());
    Maker maker = kMakers.at(random() % kMakers.size());
    if (bytes_of(operands.a) == 1 && is_float(operands.a) && random() % 2 == 0) {
      operands.b = kSmall.at(random() % kSmall.size());
      maker = &any;
    }
    SumRule rule{.precision = kUmmaPrecision, .is_saturating = random() % 2 == 0};
    if (is_float(operands.a) && operands.a != Element::kBF16 && random() % 4 == 0) {
      rule.accumulator = Accumulator::kF16;
    }
    Lines a = made(random, operands.a, 5, maker);
    Lines b = made(random, operands.b, 24, maker);
    if (is_float(operands.a) && rule.accumulator == Accumulator::kF32 && random() % 2 == 0) {
      a.scales = made_scales(random, a.count);
      b.scales = made_scales(random, b.count);
    }
    std::vector<std::uint32_t> d(a.count * b.count);
    std::vector<std::uint32_t> want;
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i] = accumulator(random, is_float(operands.a));
      if (rule.accumulator == Accumulator::kF16) {
        d[i] = extreme(random, Element::kF16);
      }
      const std::size_t row = i / b.count;
      const std::size_t column = i % b.count;
      const auto x = reference::numbers(operands.a, line_of(a, row), a.is_negated,
                                        a.scales.empty() ? 127 : a.scales[row]);
      const auto y = reference::numbers(operands.b, line_of(b, column), b.is_negated,
                                        b.scales.empty() ? 127 : b.scales[column]);
      want.push_back(!is_float(operands.a) ? reference::whole_sum(x, y, d[i], rule.is_saturating)
                     : rule.accumulator == Accumulator::kF16
                         ? reference::half_sum(x, y, d[i], reference::kBlackwell)
                         : reference::float_sum(x, y, d[i], reference::kBlackwell));
    }
    std::vector<std::uint32_t> singly = d;
    multiply_add(a, b, d, rule);
    multiply_add_singly(a, b, singly, rule);
    for (std::size_t i = 0; i < d.size(); ++i) {
      ASSERT_EQ(d[i], want[i]) << fmt::format("round {} operands {} {} at {}", round,
                                              int(operands.a), int(operands.b), i);
      ASSERT_EQ(singly[i], want[i]) << fmt::format("singly: round {} operands {} {} at {}", round,
                                                   int(operands.a), int(operands.b), i);
    }
  }
}

// A row of A times a column of B, both with zeros behind what is given, as a step of 32 bytes.
std::uint32_t sum_of(Element element, const std::vector<std::uint16_t>& a,
                     const std::vector<std::uint16_t>& b, std::uint32_t c, const SumRule& rule) {
  const auto lines = [&](std::size_t count, const std::vector<std::uint16_t>& first) {
    Lines lines{.element = element, .depth = 32 / bytes_of(element)};
    lines.resize(count);
    for (std::size_t k = 0; k < first.size(); ++k) {
      lines.set(0, k, first[k]);
    }
    return lines;
  };
  std::vector<std::uint32_t> d(8, c);
  multiply_add(lines(1, a), lines(8, b), d, rule);
  return d[0];
}

// By hand, from the rules.
TEST(TensorProduct, CutsWhereBlackwellDoes) {
  const auto sum = [](Element element, const std::vector<std::uint16_t>& a,
                      const std::vector<std::uint16_t>& b, float c) {
    return std::bit_cast<float>(
        sum_of(element, a, b, std::bit_cast<std::uint32_t>(c), {.precision = kUmmaPrecision}));
  };
  // e4m3 keeps 25 bits too, of which 23 are left behind the point.
  EXPECT_EQ(sum(Element::kE4M3, {0x38}, {0x38}, 0x1p-23F), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Element::kE4M3, {0x38}, {0x38}, 0x1.8p-24F), 1.0F);
  EXPECT_EQ(sum(Element::kE4M3, {0x38, 0xB8}, {0x38, 0x38}, 0x1.8p-25F), 0x1p-25F);
  // A zero has no exponent: 16 times 2^-152 are 2^-148.
  const std::vector<std::uint16_t> small(16, 0x1980);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(sum(Element::kBF16, small, small, 0)), 2U);
}

// By hand: a sum in binary16 is rounded once, from all that was kept.
TEST(TensorProduct, RoundsSumsOfHalves) {
  const auto sum = [](const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
    return sum_of(Element::kF16, a, b, 0,
                  {.precision = kUmmaPrecision, .accumulator = Accumulator::kF16});
  };
  EXPECT_EQ(sum({0x0C00}, {0x0800}), 0U);                       // 2^-25, a tie
  EXPECT_EQ(sum({0x0C00, 0x0001}, {0x0800, 0x0001}), 1U);       // and 2^-48
  EXPECT_EQ(sum({0x8C00}, {0x0400}), 0U);                       // -2^-26 is +0
  EXPECT_EQ(sum({0x7BFF, 0x4C00}, {0x3C00, 0x3C00}), 0x7C00U);  // 65504 + 16
  EXPECT_EQ(sum({0x7BFF, 0x4BFF}, {0x3C00, 0x3C00}), 0x7BFFU);
}

// By hand, from the rules.
TEST(TensorProduct, CutsWhereHopperDoes) {
  const auto sum = [](Element element, const std::vector<std::uint16_t>& a,
                      const std::vector<std::uint16_t>& b, float c) {
    return std::bit_cast<float>(sum_of(element, a, b, std::bit_cast<std::uint32_t>(c),
                                       {.precision = wgmma_precision(element)}));
  };
  // f16 1 * 1 + 2^-25 is kept in the sum, and cut from the result; twice 2^-24 makes 2^-23.
  EXPECT_EQ(sum(Element::kF16, {0x3C00, 0x3C00}, {0x3C00, 0x0001}, 0x1p-24F), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Element::kF16, {0x3C00, 0x3800}, {0x3C00, 0x0001}, 0x1p-25F), 1.0F);
  EXPECT_EQ(sum(Element::kF16, {0x3C00, 0x3800, 0x3800, 0x3800}, {0x3C00, 1, 1, 1}, 0x1p-25F),
            1 + 0x1p-23F);
  // Cut towards zero, each by itself: 2^-26 is nothing, however often.
  EXPECT_EQ(
      sum(Element::kF16, {0xBC00, 0x3400, 0x3400, 0x3400, 0x3400, 0x3400, 0x3400, 0x3400, 0x3400},
          {0x3C00, 1, 1, 1, 1, 1, 1, 1, 1}, 0),
      -1.0F);
  // e4m3 keeps 13 bits, of the accumulator too.
  EXPECT_EQ(sum(Element::kE4M3, {0x38}, {0x38}, 0x1p-13F), 1 + 0x1p-13F);
  EXPECT_EQ(sum(Element::kE4M3, {0x38}, {0x38}, 0x1.8p-13F), 1 + 0x1p-13F);
  EXPECT_EQ(sum(Element::kE4M3, {0x38}, {0x38}, 0x1p-14F), 1.0F);
  EXPECT_EQ(sum(Element::kE4M3, {}, {}, 0x1.123456p+3F), 0x1.123p+3F);
  // The largest exponent is of factors, not of their product: 1.5 * 1.5 counts as 2^0.
  EXPECT_EQ(sum(Element::kE4M3, {0x3C}, {0x3C}, 0x1p-13F), 2.25F);
  EXPECT_EQ(sum(Element::kE4M3, {0x3C, 0x3C}, {0x3C, 0xBC}, 0x1p-13F), 0x1p-13F);
  // The largest exponent is at least that of binary32's smallest normal numbers: 16 times 2^-152
  // is nothing.
  const std::vector<std::uint16_t> small(16, 0x1980);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(sum(Element::kBF16, small, small, 0)), 0U);
  // What is too small for binary32 becomes +0.
  EXPECT_EQ(std::bit_cast<std::uint32_t>(sum(Element::kBF16, {0x1A00}, {0x9980}, 0)), 0U);
  // A subnormal factor counts as the lowest exponent.
  EXPECT_EQ(sum(Element::kE4M3, {0x01, 0x08}, {0x38, 0xB8}, 0x1p-6F), 0x1p-9F);
}

}  // namespace
}  // namespace emu
