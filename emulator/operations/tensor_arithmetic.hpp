// What tensor cores compute of floats: sums of products that are cut off, not rounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace emu {

/// What matrices are made of. Elements of 4 and 6 bits are the low bits of a byte.
enum class Element : std::uint8_t { kF16, kBF16, kE4M3, kE5M2, kS8, kU8, kE2M3, kE3M2, kE2M1 };
constexpr std::size_t kElementCount = 9;

constexpr std::size_t bytes_of(Element element) {
  return element <= Element::kBF16 ? 2 : 1;
}
constexpr bool is_float(Element element) {
  return element != Element::kS8 && element != Element::kU8;
}

/// A format of one sign bit, exponent bits and fraction bits.
struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;        // and NaN: what the highest exponent is for
  bool has_nan_at_the_end;  // the greatest number's place has NaN
};
/// Format of an element of floats.
constexpr Format format_of(Element element) {
  constexpr std::array<Format, kElementCount> kFormats = {{{5, 10, true, false},
                                                           {8, 7, true, false},
                                                           {4, 3, false, true},
                                                           {5, 2, true, false},
                                                           {},
                                                           {},
                                                           {2, 3, false, false},
                                                           {3, 2, false, false},
                                                           {2, 1, false, false}}};
  return kFormats.at(static_cast<std::size_t>(element));
}
/// Bits of an element in shared memory.
constexpr std::size_t bits_of(Element element) {
  const Format format = format_of(element);
  return is_float(element)
             ? static_cast<std::size_t>(1 + format.exponent_bits + format.fraction_bits)
             : 8;
}

/// What sums are kept in: words of 32 bits, of which binary16 has the low half.
enum class Accumulator : std::uint8_t { kF32, kF16, kS32 };

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
Parts parts_of_f32(float value);
/// Parts of an element of floats, by its bits.
Parts parts_of(Element element, std::uint16_t bits);

/// The lowest exponent of a step where a term that is zero counts as one of binary32, and where it
/// does not.
constexpr int kLowestTop = -126;
constexpr int kNoLowestTop = -0x10000;

/// How a tensor core adds up a step: bits kept below the largest exponent of all terms, fraction
/// bits of the result, and the lowest exponent.
struct Precision {
  int sum_bits = 25;
  int result_bits = 23;
  int lowest_top = kLowestTop;
};
/// What wgmma has on Hopper: of 8-bit floats it keeps less.
constexpr Precision wgmma_precision(Element element) {
  return bytes_of(element) == 2 ? Precision{25, 23} : Precision{13, 13};
}
/// What tcgen05.mma has of all floats without blocks of 16 (sf-tensor/tcgen05,
/// tcgen05_model/MODEL.md, measured on a B200; microsoft/MMA-Sim).
constexpr Precision kUmmaPrecision{25, 23, kNoLowestTop};

/// c + sum of a[i] * b[i], as one step of a tensor core: every term is cut off (towards zero) at
/// `sum_bits` below the largest exponent of all terms, and the sum is cut off to binary32 with
/// `result_bits`. Exponents of products are those of their factors added up. A sum that is zero is
/// +0, a NaN 0x7FFFFFFF. (arXiv:2511.10909 and microsoft/MMA-Sim, mmasim/simulator.)
float fused_sum(std::span<const Parts> a, std::span<const Parts> b, float c, Precision precision);

/// The same of binary16, by its bits: the sum is rounded to the nearest, ties to even, and
/// result_bits mean nothing. A NaN is 0x7FFF.
std::uint16_t fused_sum_of_f16(std::span<const Parts> a, std::span<const Parts> b, std::uint16_t c,
                               Precision precision);

}  // namespace emu
