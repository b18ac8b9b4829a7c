// What tensor cores compute of floats: sums of products that are cut off, not rounded.
#pragma once

#include <cstdint>
#include <span>

namespace emu {

/// A number as sign * significand * 2^exponent. A zero's exponent is the format's lowest.
struct Parts {
  std::int64_t significand = 0;  // with its sign, an integer
  int exponent = 0;              // of the significand's unit
  int top = 0;  // the exponent that the format's bits say, from which terms are aligned
  bool is_nan = false;
  bool is_infinite = false;  // its sign is that of the significand, +-1
};

Parts parts_of_f16(std::uint16_t bits);
Parts parts_of_bf16(std::uint16_t bits);
Parts parts_of_e4m3(std::uint8_t bits);
Parts parts_of_f32(float value);

/// c + sum of a[i] * b[i], as one step of a tensor core: every term is cut off (towards zero) at
/// `fraction_bits` below the largest exponent of all terms, and the sum is cut off to binary32.
/// Exponents of products are those of their factors added up. (arXiv:2511.10909 and
/// microsoft/MMA-Sim, mmasim/simulator.)
float fused_sum(std::span<const Parts> a, std::span<const Parts> b, float c, int fraction_bits);

}  // namespace emu
