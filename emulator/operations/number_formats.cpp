// Conversions between binary32 and the 16-bit and 8-bit float formats.
#include "emulator/operations/number_formats.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace emu {
namespace {

// Float format with a sign bit, exponent bits and fraction bits.
struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;  // false: the highest exponent holds numbers, and only all ones is NaN

  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr int min_exponent() const { return 1 - bias(); }
  [[nodiscard]] constexpr int max_exponent() const {
    return (1 << exponent_bits) - (has_infinity ? 2 : 1) - bias();
  }
  [[nodiscard]] double largest() const {
    const int units_below =
        has_infinity ? 1 : 2;  // units in the last place below the next power of two
    return std::ldexp(2.0 - units_below * std::ldexp(1.0, -fraction_bits), max_exponent());
  }
};

constexpr Format kF16{5, 10, true};
constexpr Format kBF16{8, 7, true};
constexpr Format kE4M3{4, 3, false};
constexpr Format kE5M2{5, 2, true};

// Encodes a non-negative number, finite or infinite, without the sign bit.
template <Format kFormat>
std::uint32_t magnitude_bits(double value, bool is_saturating) {
  constexpr std::uint32_t kInfinity = ((1U << kFormat.exponent_bits) - 1) << kFormat.fraction_bits;
  const auto largest_bits = [] {
    return kFormat.has_infinity ? kInfinity - 1 : kInfinity + (1U << kFormat.fraction_bits) - 2;
  };
  if (value == 0) {
    return 0;
  }
  int exponent = 0;
  if (!std::isinf(value)) {
    std::frexp(value, &exponent);
    --exponent;  // value = 1.xxx * 2^exponent
    exponent = std::max(exponent, kFormat.min_exponent());
    // Rounds to the nearest unit in the last place, ties to even; the scaled value is exact.
    const double units = std::nearbyint(std::ldexp(value, kFormat.fraction_bits - exponent));
    value = std::ldexp(units, exponent - kFormat.fraction_bits);
    if (value == 0) {
      return 0;
    }
  }
  if (value > kFormat.largest()) {
    return is_saturating || !kFormat.has_infinity ? largest_bits() : kInfinity;
  }
  std::frexp(value, &exponent);
  --exponent;
  if (exponent < kFormat.min_exponent()) {
    return static_cast<std::uint32_t>(
        std::ldexp(value, kFormat.fraction_bits - kFormat.min_exponent()));
  }
  const auto fraction = static_cast<std::uint32_t>(
      std::ldexp(value, kFormat.fraction_bits - exponent) - (1U << kFormat.fraction_bits));
  return (static_cast<std::uint32_t>(exponent + kFormat.bias()) << kFormat.fraction_bits) |
         fraction;
}

template <Format kFormat>
std::uint32_t bits_of_value(double value, std::uint32_t nan, bool is_saturating) {
  if (std::isnan(value)) {
    return nan;
  }
  const std::uint32_t sign =
      std::signbit(value) ? 1U << (kFormat.exponent_bits + kFormat.fraction_bits) : 0;
  return sign | magnitude_bits<kFormat>(std::abs(value), is_saturating);
}

}  // namespace

float canonicalize_nan(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7FFFFFFFU) : value;
}

float f16_value(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}
float e4m3_value(std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7FU;
  const float value = magnitude == 0x7F ? std::numeric_limits<float>::quiet_NaN()
                                        : std::bit_cast<float>(magnitude << 20U) *
                                              0x1p120F;  // adjusts the exponent's bias
  return (bits & 0x80U) != 0 ? -value : value;
}
float e5m2_value(std::uint8_t bits) {
  return f16_value(static_cast<std::uint16_t>(bits << 8U));  // e5m2 is the upper half of binary16
}

float ue8m0_value(std::uint8_t bits) {
  if (bits == 0xFF) {
    return std::bit_cast<float>(0x7FFFFFFFU);
  }
  return bits == 0 ? 0x1p-127F : std::bit_cast<float>(std::uint32_t{bits} << 23U);
}

std::uint8_t ue8m0_bits(float value, bool rounds_up) {
  constexpr std::uint32_t kLargest = 0xFE;
  if (std::isnan(value)) {
    return 0xFF;
  }
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
  const std::uint32_t exponent = magnitude >> 23U;
  const std::uint32_t fraction = magnitude & 0x7FFFFFU;
  // 2^-127 is a subnormal number in binary32.
  const bool is_inexact = exponent > 0 ? fraction > 0 : fraction > 0x400000U;
  return static_cast<std::uint8_t>(
      std::min(exponent + (rounds_up && is_inexact ? 1U : 0U), kLargest));
}

std::uint16_t f16_bits(float value) {
  return std::isnan(value) ? std::uint16_t{0x7FFF}
                           : std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

std::uint16_t bf16_bits(float value) {
  if (std::isnan(value)) {
    return 0x7FFF;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

std::uint16_t f16_bits_of_double(double value) {
  return static_cast<std::uint16_t>(bits_of_value<kF16>(value, 0x7FFF, false));
}
std::uint16_t bf16_bits_of_double(double value) {
  return static_cast<std::uint16_t>(bits_of_value<kBF16>(value, 0x7FFF, false));
}
std::uint8_t e4m3_bits(float value) {
  return static_cast<std::uint8_t>(bits_of_value<kE4M3>(value, 0x7F, true));
}
std::uint8_t e5m2_bits(float value) {
  return static_cast<std::uint8_t>(bits_of_value<kE5M2>(value, 0x7F, true));
}

}  // namespace emu
