// MXFP8 in registers: 32 neighbours of a row with a power of two, and where that goes in memory.
//
// The scale is the least power of two with which no number of the block saturates; src/ops has the
// same for hosts (block_scales.hpp), with the order of the scales in memory.
#pragma once

#include <cstdint>

#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

constexpr int kScaleBlock = 32;   // numbers
constexpr int kScaleGroup = 4;    // blocks whose scales lie side by side, as one word
constexpr int kScaleRows = 128;   // of an atom, which has a group of each
constexpr int kScaleBytes = 512;  // of an atom

/// 2^(result - 127) for a block whose largest magnitude this is; 255, NaN, when it is infinite.
__device__ __forceinline__ std::uint32_t block_scale(float largest) {
  constexpr std::uint32_t kExponentOf448 = 8;     // 448 is 1.75 * 2^8
  constexpr std::uint32_t kAbove448 = 0x1fffffU;  // what is beyond carries into the exponent
  const std::uint32_t bits = __float_as_uint(largest);
  const std::uint32_t exponent = (bits + kAbove448) >> 23;
  return bits < 0x7f800000U ? max(exponent, kExponentOf448) - kExponentOf448 : 255U;
}

/// 1 / 2^(scale - 127), exactly, of scales of finite blocks.
__device__ __forceinline__ float inverse_of_scale(std::uint32_t scale) {
  return __uint_as_float((254U - scale) << 23);
}

/// Where the word of a group of a row is, in bytes from the first scale; `groups` of a row.
__device__ __forceinline__ std::int64_t scale_place(std::int64_t row, std::int32_t group,
                                                    std::int32_t groups) {
  const auto in_atom = static_cast<std::int32_t>(row % kScaleRows);
  return (row / kScaleRows * groups + group) * kScaleBytes + in_atom % 32 * 16 + in_atom / 32 * 4;
}

/// Four values as e4m3, the first in the low byte; beyond 448 saturates, NaN stays NaN.
__device__ __forceinline__ std::uint32_t to_e4m3x4(const float* y, float inverse) {
  const std::uint32_t low = ptx::cvt_e4m3x2(y[0] * inverse, y[1] * inverse);
  const std::uint32_t high = ptx::cvt_e4m3x2(y[2] * inverse, y[3] * inverse);
  return low | high << 16;
}

}  // namespace fovea::epilogue
