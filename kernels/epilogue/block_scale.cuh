// MXFP8 in registers: the scale of 32 neighbouring values in a row, their conversion, and the place
// of the scale in memory.
//
// The scale is the smallest power of two with which no value of the block saturates.
// src/ops/block_scales.hpp is the counterpart for the host, and describes the order of the scales
// in memory.
#pragma once

#include <cstdint>

#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

constexpr int kScaleBlock = 32;   // values that share a scale
constexpr int kScaleGroup = 4;    // blocks whose scales form one 32-bit word
constexpr int kScaleRows = 128;   // rows of an atom, which has one group of each row
constexpr int kScaleBytes = 512;  // bytes of an atom

/// Returns the biased exponent of the scale, 2^(result - 127), of a block with this largest
/// magnitude; 255, which is NaN, when that is infinite or NaN.
__device__ __forceinline__ std::uint32_t block_scale(float largest) {
  constexpr std::uint32_t kExponentOf448 = 8;  // 448 is 1.75 * 2^8
  /// Adding it carries into the exponent if the mantissa exceeds that of 448.
  constexpr std::uint32_t kAbove448 = 0x1fffffU;
  const std::uint32_t bits = __float_as_uint(largest);
  const std::uint32_t exponent = (bits + kAbove448) >> 23;
  return bits < 0x7f800000U ? max(exponent, kExponentOf448) - kExponentOf448 : 255U;
}

/// Returns exactly 1 / 2^(scale - 127) for the scale of a finite block.
__device__ __forceinline__ float inverse_of_scale(std::uint32_t scale) {
  return __uint_as_float((254U - scale) << 23);
}

/// Returns the offset, in bytes, of the word with the scales of a row's group; a row has `groups`
/// of them.
__device__ __forceinline__ std::int64_t scale_place(std::int64_t row, std::int32_t group,
                                                    std::int32_t groups) {
  const auto in_atom = static_cast<std::int32_t>(row % kScaleRows);
  return (row / kScaleRows * groups + group) * kScaleBytes + in_atom % 32 * 16 + in_atom / 32 * 4;
}

/// Converts four values to e4m3, the first in the low byte; values beyond 448 saturate, and NaN
/// stays NaN.
__device__ __forceinline__ std::uint32_t to_e4m3x4(const float* y, float inverse) {
  const std::uint32_t low = ptx::cvt_e4m3x2(y[0] * inverse, y[1] * inverse);
  const std::uint32_t high = ptx::cvt_e4m3x2(y[2] * inverse, y[3] * inverse);
  return low | high << 16;
}

}  // namespace fovea::epilogue
