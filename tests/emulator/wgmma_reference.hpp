// What wgmma and tcgen05.mma compute, element by element in binary64, and where their operands lie:
// written from the published rules, with nothing of the emulator's own but the names of types.
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
  const auto made = [&](int exponent_bits, int fraction_bits, bool has_infinity = true) {
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
    } else if (has_infinity && exponent == (1 << exponent_bits) - 1) {
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
    case Element::kE2M3:
      return made(2, 3, false);
    case Element::kE3M2:
      return made(3, 2, false);
    case Element::kE2M1:
      return made(2, 1, false);
    case Element::kS8:
      return {
          static_cast<double>(bits < 128 ? static_cast<int>(bits) : static_cast<int>(bits) - 256),
          0};
    case Element::kTF32:
      return made(8, 10);  // of the high 19 bits
    default:
      break;
  }
  return {static_cast<double>(bits), 0};
}

/// How sums are made: bits kept below the largest exponent, fraction bits of the result, and the
/// least that the largest exponent can be.
struct Cuts {
  int kept = 25;
  int fraction = 23;
  int least = -126;
};
constexpr Cuts kHopper{25, 23, -126};
constexpr Cuts kHopperOf8Bits{13, 13, -126};
constexpr Cuts kBlackwell{25, 23, -1000000};

/// The exact sum of what is left of each term; infinite or NaN where that is the result.
inline double cut_sum(const std::vector<Number>& a, const std::vector<Number>& b,
                      const Number& start, const Cuts& cuts) {
  double all = start.value;
  int top = start.value == 0 ? cuts.least : std::max(start.exponent, cuts.least);
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double product = a[k].value * b[k].value;
    all += product;
    if (product != 0) {
      top = std::max(top, a[k].exponent + b[k].exponent);
    }
  }
  if (!std::isfinite(all)) {
    return all;
  }
  double sum = std::trunc(std::ldexp(start.value, cuts.kept - top));
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += std::trunc(std::ldexp(a[k].value * b[k].value, cuts.kept - top));
  }
  return sum == 0 ? 0 : std::ldexp(sum, top - cuts.kept);
}

/// c + sum of a[k] * b[k] as the bits of binary32.
inline std::uint32_t float_sum(const std::vector<Number>& a, const std::vector<Number>& b,
                               std::uint32_t c, const Cuts& cuts) {
  const double sum =
      cut_sum(a, b, number(static_cast<double>(std::bit_cast<float>(c)), -126), cuts);
  if (std::isnan(sum)) {
    return 0x7FFFFFFF;
  }
  if (std::isinf(sum)) {
    return sum > 0 ? 0x7F800000 : 0xFF800000;
  }
  if (sum == 0) {
    return 0;
  }
  const int exponent = std::max(std::ilogb(sum), -126);
  const double result =
      std::ldexp(std::trunc(std::ldexp(sum, cuts.fraction - exponent)), exponent - cuts.fraction);
  if (std::abs(result) >= std::ldexp(1.0, 128)) {
    return result > 0 ? 0x7F800000 : 0xFF800000;
  }
  return result == 0 ? 0 : std::bit_cast<std::uint32_t>(static_cast<float>(result));
}

/// The same of binary16, rounded to the nearest, ties to even.
inline std::uint32_t half_sum(const std::vector<Number>& a, const std::vector<Number>& b,
                              std::uint32_t c, const Cuts& cuts) {
  const double sum = cut_sum(a, b, number(Element::kF16, c), cuts);
  if (std::isnan(sum)) {
    return 0x7FFF;
  }
  const std::uint32_t sign = sum < 0 ? 0x8000 : 0;
  if (std::abs(sum) >= 65520) {
    return sign | 0x7C00;
  }
  const int exponent = sum == 0 ? -14 : std::max(std::ilogb(sum), -14);
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::abs(sum), 10 - exponent)));
  // 1024 units at the least exponent are a normal number; 2048 at any are the next one's first.
  const std::uint32_t bits = (static_cast<std::uint32_t>(exponent + 14) << 10U) + units;
  return bits == 0 ? 0 : sign | bits;
}

/// Elements of a line as numbers, multiplied by 2^(scale - 127); scale 255 is NaN.
inline std::vector<Number> numbers(Element element, const std::vector<unsigned>& bits,
                                   bool is_negated, int scale = 127) {
  std::vector<Number> made;
  for (const unsigned each : bits) {
    Number one = number(element, each);
    one.value = scale == 255 ? std::numeric_limits<double>::quiet_NaN()
                             : std::ldexp(is_negated ? -one.value : one.value, scale - 127);
    one.exponent += scale - 127;
    made.push_back(one);
  }
  return made;
}

/// Whole numbers, all of whose products are exact.
inline std::uint32_t whole_sum(const std::vector<Number>& a, const std::vector<Number>& b,
                               std::uint32_t c, bool is_saturating) {
  std::int64_t whole = static_cast<std::int32_t>(c);
  for (std::size_t k = 0; k < a.size(); ++k) {
    whole += static_cast<std::int64_t>(a[k].value * b[k].value);
  }
  if (is_saturating) {
    whole = std::min<std::int64_t>(std::max<std::int64_t>(whole, -2147483648LL), 2147483647LL);
  }
  return static_cast<std::uint32_t>(whole);
}

/// One element of D of wgmma.
inline std::uint32_t sum(Element a_type, const std::vector<unsigned>& a, bool is_a_negated,
                         Element b_type, const std::vector<unsigned>& b, bool is_b_negated,
                         std::uint32_t c) {
  const std::vector<Number> x = numbers(a_type, a, is_a_negated);
  const std::vector<Number> y = numbers(b_type, b, is_b_negated);
  if (a_type == Element::kS8 || a_type == Element::kU8) {
    return whole_sum(x, y, c, false);
  }
  const bool has_8_bits = a_type == Element::kE4M3 || a_type == Element::kE5M2;
  return float_sum(x, y, c, has_8_bits ? kHopperOf8Bits : kHopper);
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
