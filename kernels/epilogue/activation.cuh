// Activation functions of values in registers.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

/// Computes x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kLinear = 0.7978845608F;
  constexpr float kCubic = 0.044715F * kLinear;
  const float t = ptx::tanh_approx(x * fmaf(x * x, kCubic, kLinear));
  const float half = 0.5F * x;
  return fmaf(half, t, half);
}

/// Computes 2 * half_scale * gelu_tanh(x) of two halves, for results that are rounded to one byte.
__device__ __forceinline__ std::uint32_t gelu_tanh_f16x2(std::uint32_t packed, __half2 half_scale) {
  const __half2 linear = __float2half2_rn(0.7978845608F);
  const __half2 cubic = __float2half2_rn(0.044715F * 0.7978845608F);
  __half2 x;
  __builtin_memcpy(&x, &packed, sizeof(x));
  // GELU is zero below -240. The clamp keeps -infinity from becoming NaN; NaN stays NaN.
  x = __hmax2_nan(x, __float2half2_rn(-240.0F));
  const __half2 u = __hmul2(x, __hfma2(__hmul2(x, x), cubic, linear));
  std::uint32_t argument;
  __builtin_memcpy(&argument, &u, sizeof(u));
  argument = ptx::tanh_approx_f16x2(argument);
  __half2 t;
  __builtin_memcpy(&t, &argument, sizeof(t));
  const __half2 half = __hmul2(half_scale, x);
  const __half2 result = __hfma2(half, t, half);
  __builtin_memcpy(&packed, &result, sizeof(packed));
  return packed;
}

/// Converts two halves, less kGeluOffset, to i8 in the low bytes, rounded to nearest even and
/// saturated at 127. No lower bound is needed: GELU is at least -0.1701, and its scale is such that
/// the result stays above -128. Adding 1.5 * 2^10 leaves the integer in a half's low bits.
__device__ __forceinline__ std::uint32_t to_i8x2(std::uint32_t packed) {
  __half2 x;
  __builtin_memcpy(&x, &packed, sizeof(x));
  x = __hadd2(__hmin2(x, __float2half2_rn(127.0F + kGeluOffset)),
              __float2half2_rn(1536.0F - kGeluOffset));
  __builtin_memcpy(&packed, &x, sizeof(packed));
  return __byte_perm(packed, 0U, 0x4420);
}

}  // namespace fovea::epilogue
