// Activations of single values in registers.
#pragma once

#include "kernels/ptx/math.cuh"

namespace fovea::epilogue {

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kLinear = 0.7978845608F;
  constexpr float kCubic = 0.044715F * kLinear;
  const float t = ptx::tanh_approx(x * fmaf(x * x, kCubic, kLinear));
  const float half = 0.5F * x;
  return fmaf(half, t, half);
}

}  // namespace fovea::epilogue
