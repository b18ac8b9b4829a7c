// Approximate functions of the special function unit, and conversions to the narrow types.
#pragma once

#include <cstdint>

namespace fovea::ptx {

/// tanh(x), with a relative error of at most 2^-10.99.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ std::uint32_t tanh_approx_f16x2(std::uint32_t x) {
  std::uint32_t y;
  asm("tanh.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/// 2^x, approximately.
__device__ __forceinline__ float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Converts two floats; `low` is in the low half of the result.
__device__ __forceinline__ std::uint32_t cvt_bf16x2(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ std::uint32_t cvt_f16x2(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Converts two floats, which saturate at 448; `low` is in the low byte of the result.
__device__ __forceinline__ std::uint16_t cvt_e4m3x2(float low, float high) {
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ std::uint16_t cvt_e4m3x2_f16x2(std::uint32_t halves) {
  std::uint16_t packed;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(packed) : "r"(halves));
  return packed;
}

__device__ __forceinline__ float bf16_low(std::uint32_t packed) {
  return __uint_as_float(packed << 16);
}

__device__ __forceinline__ float bf16_high(std::uint32_t packed) {
  return __uint_as_float(packed & 0xffff0000U);
}

__device__ __forceinline__ float f16_low(std::uint32_t packed) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<std::uint16_t>(packed)));
  return x;
}

__device__ __forceinline__ float f16_high(std::uint32_t packed) {
  return f16_low(packed >> 16);
}

}  // namespace fovea::ptx
