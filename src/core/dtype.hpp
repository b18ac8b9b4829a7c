// Element types of tensors, their sizes, and scalar conversions of the 16-bit floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fovea {

/// kMXFP8 is e4m3 in blocks, each with a power-of-two scale; the scales are stored after the
/// numbers (ops/block_scales.hpp).
enum class DType : std::uint8_t { kU8, kI8, kE4M3, kMXFP8, kF16, kBF16, kF32, kF64 };

struct DTypeFacts {
  std::string_view name;  // as used in messages and manifests
  std::size_t bytes;      // of one element
};
/// Names and sizes in the order of DType.
inline constexpr DTypeFacts kDTypes[] = {{"u8", 1},  {"i8", 1},   {"e4m3", 1}, {"mxfp8", 1},
                                         {"f16", 2}, {"bf16", 2}, {"f32", 4},  {"f64", 8}};

[[nodiscard]] constexpr std::size_t size_of(DType type) {
  return kDTypes[static_cast<std::size_t>(type)].bytes;
}

[[nodiscard]] constexpr std::string_view to_string(DType type) {
  return kDTypes[static_cast<std::size_t>(type)].name;
}

/// A bfloat16 in storage: the upper half of an IEEE binary32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// An IEEE binary16 in storage.
struct Float16 {
  std::uint16_t bits = 0;
};

[[nodiscard]] constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest even; NaN stays NaN (quieted).
[[nodiscard]] constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

/// Exact. Uses selections instead of branches, so that compilers vectorise loops over it.
[[nodiscard]] constexpr float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  // Zero or subnormal: magnitude * 2^-24 is exact in binary32.
  const auto small = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t normal = (magnitude << 13) + (112U << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000U;  // infinity or NaN
  const std::uint32_t finite = magnitude < 0x400U ? small : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00U ? special : finite));
}

/// Rounds to nearest even; overflows to infinity, NaN stays NaN (quieted).
[[nodiscard]] constexpr Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return {static_cast<std::uint16_t>(sign | 0x7e00U)};
  }
  if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
    return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  }
  if (magnitude < 0x38800000U) {  // subnormal in binary16: count units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;
    auto rounded = static_cast<std::uint32_t>(units);
    const float rest = units - static_cast<float>(rounded);
    if (rest > 0.5F || (rest == 0.5F && (rounded & 1U) != 0)) {
      ++rounded;
    }
    return {static_cast<std::uint16_t>(sign | rounded)};
  }
  const std::uint32_t rebased = magnitude - (112U << 23);
  return {static_cast<std::uint16_t>(sign | ((rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13))};
}

/// An 8-bit float in storage: sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, and
/// S.1111.111 is NaN (the OCP 8-bit floating point specification, E4M3).
struct Float8E4M3 {
  std::uint8_t bits = 0;
};
inline constexpr float kE4M3Max = 448.0F;

/// Exact.
[[nodiscard]] constexpr float to_float(Float8E4M3 value) {
  const int exponent = (value.bits >> 3) & 0xf;
  const int mantissa = value.bits & 0x7;
  const float sign = (value.bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (exponent == 15 && mantissa == 7) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  if (exponent == 0) {
    return sign * static_cast<float>(mantissa) * 0x1p-9F;
  }
  const auto power = std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 120) << 23);
  return sign * power * (1.0F + static_cast<float>(mantissa) / 8.0F);
}

/// Rounds to nearest even; beyond 448 it saturates, as cvt.satfinite does; NaN stays NaN.
[[nodiscard]] constexpr Float8E4M3 to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return {static_cast<std::uint8_t>(sign | 0x7fU)};
  }
  const auto absolute = std::bit_cast<float>(magnitude);
  if (absolute >= kE4M3Max) {
    return {static_cast<std::uint8_t>(sign | 0x7eU)};
  }
  if (absolute < 0x1p-6F) {  // subnormal: adding 2^14 rounds to units of 2^-9
    const float shifted = absolute + 0x1p14F;
    const auto units = std::bit_cast<std::uint32_t>(shifted) & 0xfU;
    return {static_cast<std::uint8_t>(sign | units)};
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
  return {static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120U << 3)))};
}

/// A power of two in storage, 2^(bits - 127); 255 is NaN (OCP Microscaling Formats v1.0, E8M0).
struct Float8E8M0 {
  std::uint8_t bits = 0;
};

/// Exact.
[[nodiscard]] constexpr float to_float(Float8E8M0 value) {
  const std::uint32_t power = value.bits == 0 ? 0x00400000U : std::uint32_t{value.bits} << 23;
  return std::bit_cast<float>(value.bits == 255 ? 0x7fc00000U : power);
}

}  // namespace fovea
