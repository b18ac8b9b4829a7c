// Conversions between binary32 and the 16-bit and 8-bit float formats.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace emu {

/// Returns the value, with any NaN replaced by the one of GPU arithmetic, 0x7FFFFFFF.
inline float canonicalize_nan(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7FFFFFFFU) : value;
}

/// Decode a float exactly; NaN stays NaN.
float f16_value(std::uint16_t bits);
inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}
float e4m3_value(std::uint8_t bits);
float e5m2_value(std::uint8_t bits);

/// Round to nearest, ties to even. Overflow gives infinity; NaN gives 0x7FFF.
std::uint16_t f16_bits(float value);
inline std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::isnan(value)
             ? std::uint16_t{0x7FFF}
             : static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}
/// Rounds a binary64 number to binary16, in one rounding.
std::uint16_t f16_bits_of_double(double value);
/// Decodes UE8M0, a format of exponent bits only: powers of two from 2^-127 to 2^127, and NaN.
float ue8m0_value(std::uint8_t bits);
/// Rounds the magnitude to a power of two, down or, if `rounds_up`, up; saturates at the format's
/// limits (satfinite). NaN becomes 0xFF.
std::uint8_t ue8m0_bits(float value, bool rounds_up);

}  // namespace emu
