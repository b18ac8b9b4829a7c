// What wgmma computes, element by element in binary64, and where its operands lie: written from the
// published rules, with nothing of the emulator's own but the names of types.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "emulator/operations/tensor_arithmetic.hpp"

namespace emu::reference {

struct Number {
  double value = 0;
  int exponent = 0;  // as terms are aligned; of what is not zero
};

inline Number number(double value, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) {
    return {value, 0};
  }
  return {value, std::max(std::ilogb(value), least_exponent)};
}

inline Number number(Element element, unsigned bits) {
  const auto made = [&](int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto fraction = static_cast<double>(bits % (1U << fraction_bits));
    const auto exponent = static_cast<int>(bits >> fraction_bits) % (1 << exponent_bits);
    const bool is_negative = bits >> (exponent_bits + fraction_bits) != 0;
    double value = exponent == 0
                       ? std::ldexp(fraction, 1 - bias - fraction_bits)
                       : std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
    if (element == Element::kE4M3) {
      if (bits % 128 == 127) {
        value = std::numeric_limits<double>::quiet_NaN();
      }
    } else if (exponent == (1 << exponent_bits) - 1) {
      value = fraction == 0 ? std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::quiet_NaN();
    }
    return number(is_negative ? -value : value, 1 - bias);
  };
  switch (element) {
    case Element::kF16:
      return made(5, 10);
    case Element::kBF16:
      return made(8, 7);
    case Element::kE4M3:
      return made(4, 3);
    case Element::kE5M2:
      return made(5, 2);
    case Element::kS8:
      return {
          static_cast<double>(bits < 128 ? static_cast<int>(bits) : static_cast<int>(bits) - 256),
          0};
    case Element::kU8:
      break;
  }
  return {static_cast<double>(bits), 0};
}

/// c + sum of a[k] * b[k] as the bits of binary32.
inline std::uint32_t float_sum(const std::vector<Number>& a, const std::vector<Number>& b,
                               std::uint32_t c, int kept, int fraction) {
  const Number start = number(static_cast<double>(std::bit_cast<float>(c)), -126);
  double all = start.value;
  int top = start.value == 0 ? -126 : std::max(start.exponent, -126);
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double product = a[k].value * b[k].value;
    all += product;
    if (product != 0) {
      top = std::max(top, a[k].exponent + b[k].exponent);
    }
  }
  if (std::isnan(all)) {
    return 0x7FFFFFFF;
  }
  if (std::isinf(all)) {
    return all > 0 ? 0x7F800000 : 0xFF800000;
  }
  double sum = std::trunc(std::ldexp(start.value, kept - top));
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += std::trunc(std::ldexp(a[k].value * b[k].value, kept - top));
  }
  if (sum == 0) {
    return 0;
  }
  const int exponent = std::max(std::ilogb(sum) + top - kept, -126);
  const double result = std::ldexp(std::trunc(std::ldexp(sum, top - kept - exponent + fraction)),
                                   exponent - fraction);
  if (std::abs(result) >= std::ldexp(1.0, 128)) {
    return result > 0 ? 0x7F800000 : 0xFF800000;
  }
  return result == 0 ? 0 : std::bit_cast<std::uint32_t>(static_cast<float>(result));
}

/// One element of D.
inline std::uint32_t sum(Element a_type, const std::vector<unsigned>& a, bool is_a_negated,
                         Element b_type, const std::vector<unsigned>& b, bool is_b_negated,
                         std::uint32_t c) {
  std::vector<Number> x;
  std::vector<Number> y;
  const bool is_whole = a_type == Element::kS8 || a_type == Element::kU8;
  std::int64_t whole = static_cast<std::int32_t>(c);
  for (std::size_t k = 0; k < a.size(); ++k) {
    x.push_back(number(a_type, a[k]));
    y.push_back(number(b_type, b[k]));
    x.back().value *= is_a_negated ? -1 : 1;
    y.back().value *= is_b_negated ? -1 : 1;
    if (is_whole) {
      whole += static_cast<std::int64_t>(x.back().value * y.back().value);
    }
  }
  if (is_whole) {
    return static_cast<std::uint32_t>(whole);
  }
  const bool has_8_bits = a_type == Element::kE4M3 || a_type == Element::kE5M2;
  return float_sum(x, y, c, has_8_bits ? 13 : 25, has_8_bits ? 13 : 23);
}

/// A matrix of `lines` (rows of A, columns of B) in shared memory. Each offset is in bytes and
/// counts from where the swizzle's pattern begins.
struct Placement {
  bool is_k_major = true;
  unsigned width = 16;   // of the swizzle; 16: none
  unsigned element = 2;  // bytes
  unsigned groups = 0;   // from one group of eight lines (K-major) or of eight k to the next
  unsigned pieces = 0;   // from one piece of `width` bytes along the line's or k's row to the next

  [[nodiscard]] unsigned offset(unsigned line, unsigned k) const {
    const unsigned row = is_k_major ? line : k;
    const unsigned byte = (is_k_major ? k : line) * element;
    const unsigned plain =
        row / 8 * groups + row % 8 * width + byte / width * pieces + byte % width;
    // Of each 128 bytes the eight parts change places, by a number that grows from one to the next.
    const unsigned part = plain / 16 % 8 ^ plain / 128 % (width / 16);
    return plain / 128 * 128 + part * 16 + plain % 16;
  }
};

}  // namespace emu::reference
