// Conversions between binary32 and the 16-bit and 8-bit float formats.
#include "emulator/operations/number_formats.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "emulator/operations/exact_number.hpp"

namespace emu {

float f16_value(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
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

std::uint16_t f16_bits_of_double(double value) {
  const auto number = decode_float<std::uint64_t>(std::bit_cast<std::uint64_t>(value), kF64);
  return static_cast<std::uint16_t>(encode_float(number, kF16, Rounding::kNearestEven));
}

}  // namespace emu
