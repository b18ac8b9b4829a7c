// The float formats of 16 and 8 bits, by value.
#pragma once

#include <cstdint>

namespace emu {

/// The value, or the one NaN that arithmetic of GPUs gives: 0x7FFFFFFF.
float canonical(float value);

/// Exact values; NaN stays NaN.
float f16_value(std::uint16_t bits);
float bf16_value(std::uint16_t bits);
float e4m3_value(std::uint8_t bits);
float e5m2_value(std::uint8_t bits);

/// The nearest, ties to even. What is too large becomes an infinity; NaN becomes 0x7FFF.
std::uint16_t f16_bits(float value);
std::uint16_t bf16_bits(float value);
/// The same for a binary64 number, rounded once.
std::uint16_t f16_bits_of_double(double value);
std::uint16_t bf16_bits_of_double(double value);
/// Powers of two, 2^-127 to 2^127, and NaN, by their exponents alone.
float ue8m0_value(std::uint8_t bits);
/// The power of two that is not greater than the magnitude, or `rounds_up` not less; of what is
/// outside, the nearest one there is (satfinite). NaN becomes 0xFF.
std::uint8_t ue8m0_bits(float value, bool rounds_up);

/// The nearest, ties to even; what is too large becomes the largest finite number (satfinite). NaN
/// becomes 0x7F.
std::uint8_t e4m3_bits(float value);
std::uint8_t e5m2_bits(float value);

}  // namespace emu
