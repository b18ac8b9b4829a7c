// Warp-level matrix products as PTX, and the places of elements in registers as the PTX manual has
// them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "emulator/operations/tensor_arithmetic.hpp"
#include "tests/emulator/device_fixture.hpp"

namespace emu {

/// Registers from `first` on, as an operand.
inline std::string register_list(unsigned first, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i) {
    text += fmt::format("{}%q{}", i == 0 ? "" : ", ", first + i);
  }
  return text + "}";
}

/// Registers A, B, C and D of a product of m x 8 x k with elements of so many bits.
struct WarpFragments {
  unsigned m;
  unsigned k;
  unsigned bits;
  bool has_halves = false;  // C and D have two sums in a register

  [[nodiscard]] unsigned per_register() const { return 32 / bits; }
  [[nodiscard]] unsigned a() const { return m * k * bits / 1024; }
  [[nodiscard]] unsigned b() const { return 8 * k * bits / 1024; }
  [[nodiscard]] unsigned c() const { return m * 8 / 32 / (has_halves ? 2 : 1); }
  [[nodiscard]] unsigned all() const { return a() + b() + 2 * c(); }

  // Lane, register and bit of an element.
  struct Place {
    unsigned lane;
    unsigned number;
    unsigned shift;
  };
  [[nodiscard]] Place of_a(unsigned row, unsigned column) const {
    const unsigned quarter = 4 * per_register();
    const unsigned number = column / quarter * (m / 8) + row / 8;
    return {row % 8 * 4 + column % quarter / per_register(), number,
            column % per_register() * bits};
  }
  [[nodiscard]] Place of_b(unsigned row, unsigned column) const {
    const unsigned quarter = 4 * per_register();
    return {column * 4 + row % quarter / per_register(), row / quarter,
            row % per_register() * bits};
  }
  [[nodiscard]] Place of_c(unsigned row, unsigned column) const {
    const unsigned lane = row % 8 * 4 + column / 2;
    return has_halves ? Place{lane, row / 8, column % 2 * 16}
                      : Place{lane, row / 8 * 2 + column % 2, 0};
  }
};

/// Body of a kernel that runs a product on 32 lanes. Memory has 32 words for each register: those
/// of A, B and C, and behind them D.
inline std::string product_body(const std::string& instruction, const WarpFragments& fragments) {
  const unsigned inputs = fragments.a() + fragments.b() + fragments.c();
  std::string body = fmt::format("  .reg .b32 %q<{}>;\n", fragments.all());
  for (unsigned i = 0; i < inputs; ++i) {
    body += fmt::format("  ld.global.b32 %q{}, [%rd3+{}];\n", i, i * 128);
  }
  body += fmt::format("  {} {}, {}, {}, {};\n", instruction, register_list(inputs, fragments.c()),
                      register_list(0, fragments.a()), register_list(fragments.a(), fragments.b()),
                      register_list(fragments.a() + fragments.b(), fragments.c()));
  for (unsigned i = inputs; i < fragments.all(); ++i) {
    body += fmt::format("  st.global.b32 [%rd3+{}], %q{};\n", i * 128, i);
  }
  return body;
}

/// Bits of any element: mostly of exponents near 1, some at the ends of the range.
inline unsigned random_element(std::mt19937& random, Element element) {
  const auto bits = static_cast<unsigned>(bits_of(element));
  const auto all = static_cast<unsigned>(random());
  if (!is_float(element) || random() % 64 == 0) {
    return bits == 32 ? all : all & ((1U << bits) - 1);
  }
  const Format format = format_of(element);
  const auto fraction = static_cast<unsigned>(format.fraction_bits);
  const unsigned one = (1U << (format.exponent_bits - 1)) - 1;
  const unsigned exponents = (1U << format.exponent_bits) - 1;
  const unsigned exponent =
      random() % 16 == 0 ? 0 : (one + static_cast<unsigned>(random() % 5) - 2) & exponents;
  const unsigned width = static_cast<unsigned>(format.exponent_bits) + fraction;
  const unsigned code = static_cast<unsigned>(random() % 2) << width | exponent << fraction |
                        (all & ((1U << fraction) - 1));
  return element == Element::kTF32 ? code << 13U | (all >> 8U & 0x1FFFU) : code;
}

/// A matrix of such elements, row by row.
inline std::vector<unsigned> random_matrix(std::mt19937& random, Element element,
                                           std::size_t count) {
  std::vector<unsigned> matrix;
  for (std::size_t i = 0; i < count; ++i) {
    matrix.push_back(random_element(random, element));
  }
  return matrix;
}

}  // namespace emu
