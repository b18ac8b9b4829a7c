// Floating-point arithmetic of tensor cores: sums of products, truncated instead of rounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace emu {

/// Element types of matrices. Floats of 4 and 6 bits are the low bits of a byte; TF32 is the high
/// 19 bits of a word.
enum class Element : std::uint8_t {
  kF16,
  kBF16,
  kE4M3,
  kE5M2,
  kS8,
  kU8,
  kE2M3,
  kE3M2,
  kE2M1,
  kTF32,
  kS4,
  kU4,
  kB1,
};
constexpr std::size_t kElementCount = 13;

/// Returns the size of an element as products take it, in bits.
constexpr std::size_t container_bits(Element element) {
  constexpr std::array<std::uint8_t, kElementCount> kBits = {16, 16, 8,  8, 8, 8, 8,
                                                             8,  8,  32, 4, 4, 1};
  return kBits.at(static_cast<std::size_t>(element));
}
/// The same in bytes, for elements of at least a byte.
constexpr std::size_t bytes_of(Element element) {
  return container_bits(element) / 8;
}
constexpr bool is_float(Element element) {
  return element != Element::kS8 && element != Element::kU8 && element < Element::kS4;
}

/// Float format with a sign bit, exponent bits and fraction bits.
struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;        // the highest exponent is for infinity and NaN
  bool has_nan_at_maximum;  // the code of the greatest magnitude is NaN
};
/// Returns the format of a float element.
constexpr Format format_of(Element element) {
  constexpr std::array<Format, kElementCount> kFormats = {{{5, 10, true, false},
                                                           {8, 7, true, false},
                                                           {4, 3, false, true},
                                                           {5, 2, true, false},
                                                           {},
                                                           {},
                                                           {2, 3, false, false},
                                                           {3, 2, false, false},
                                                           {2, 1, false, false},
                                                           {8, 10, true, false}}};
  return kFormats.at(static_cast<std::size_t>(element));
}
/// Returns the size of an element in shared memory, in bits.
constexpr std::size_t bits_of(Element element) {
  const Format format = format_of(element);
  return is_float(element) && element != Element::kTF32
             ? static_cast<std::size_t>(1 + format.exponent_bits + format.fraction_bits)
             : container_bits(element);
}

/// Types of sums, in words of 32 bits, of which binary16 uses the low half.
enum class Accumulator : std::uint8_t { kF32, kF16, kS32 };

/// A number as significand * 2^exponent. A zero has the format's lowest exponent.
struct Parts {
  std::int64_t significand = 0;  // integer with sign
  int exponent = 0;              // exponent of the significand's unit
  int top = 0;                   // exponent that the bits encode; of a subnormal, the minimum
  bool is_nan = false;
  bool is_infinite = false;  // with the sign of the significand, which is +-1
};

Parts parts_of_f16(std::uint16_t bits);
Parts parts_of_f32(float value);
/// Decodes a float element.
Parts parts_of(Element element, std::uint32_t bits);

/// Lower limits for the largest exponent of a step: the limit of binary32, and no limit.
constexpr int kMinTop = -126;
constexpr int kNoMinTop = -0x10000;

/// Precision of a tensor core's step: bits kept below the largest exponent of all terms, fraction
/// bits of the result, and the lower limit for the largest exponent.
struct Precision {
  int sum_bits = 25;
  int result_bits = 23;
  int min_top = kMinTop;
};
/// Precision of wgmma on Hopper, which keeps fewer bits for 8-bit floats.
constexpr Precision wgmma_precision(Element element) {
  return bytes_of(element) == 1 ? Precision{13, 13} : Precision{25, 23};
}
/// Precision of tcgen05.mma for floats without scales per 16 elements (sf-tensor/tcgen05,
/// tcgen05_model/MODEL.md, measured on a B200; microsoft/MMA-Sim).
constexpr Precision kUmmaPrecision{25, 23, kNoMinTop};

/// Returns c + sum of a[i] * b[i], computed as one step of a tensor core: every term is truncated
/// (towards zero) at `sum_bits` below the largest exponent of all terms, and the sum is truncated
/// to binary32 with `result_bits`. The exponent of a product is the sum of its factors' exponents.
/// A zero sum is +0; NaN is 0x7FFFFFFF. (arXiv:2511.10909 and microsoft/MMA-Sim, mmasim/simulator.)
float fused_sum(std::span<const Parts> a, std::span<const Parts> b, float c, Precision precision);

/// Returns the bits of the same sum in binary16, rounded to nearest, ties to even; result_bits is
/// ignored. NaN is 0x7FFF.
std::uint16_t fused_sum_of_f16(std::span<const Parts> a, std::span<const Parts> b, std::uint16_t c,
                               Precision precision);

}  // namespace emu
