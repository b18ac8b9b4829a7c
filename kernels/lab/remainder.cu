// What a library's matrix product leaves to do, as simple kernels: an addition, or GELU to e4m3.
//
// Contract: whole chunks of 8 elements, operands 16-byte aligned. They stand for the element-wise
// kernel that a program has to add to cuBLASLt; the fused kernels are timed beside both together.
#include <cstdint>

#include "kernels/lab/params.hpp"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::remainder {
namespace {

constexpr bool kAdd = FOVEA_ADD;

__device__ __forceinline__ float gelu(float x) {
  constexpr float kSqrtTwoOverPi = 0.7978845608F;
  constexpr float kCubic = 0.044715F;
  return 0.5F * x * (1.0F + ptx::tanh_approx(kSqrtTwoOverPi * (x + kCubic * x * x * x)));
}

__device__ __forceinline__ std::uint32_t added(std::uint32_t y, std::uint32_t addend) {
  return ptx::cvt_bf16x2(ptx::bf16_low(y) + ptx::bf16_low(addend),
                         ptx::bf16_high(y) + ptx::bf16_high(addend));
}

__device__ __forceinline__ std::uint32_t quantised(std::uint32_t first, std::uint32_t second,
                                                   float factor) {
  const std::uint32_t low =
      ptx::cvt_e4m3x2(gelu(ptx::bf16_low(first)) * factor, gelu(ptx::bf16_high(first)) * factor);
  const std::uint32_t high =
      ptx::cvt_e4m3x2(gelu(ptx::bf16_low(second)) * factor, gelu(ptx::bf16_high(second)) * factor);
  return low | high << 16;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ Params params) {
  pipe::wait_for_previous_grids();
  const std::uint32_t step = gridDim.x * kThreads;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < params.chunks; i += step) {
    const uint4 y = static_cast<const uint4*>(params.y)[i];
    if constexpr (kAdd) {
      const uint4 addend = static_cast<const uint4*>(params.addend)[i % params.period];
      static_cast<uint4*>(params.output)[i] = make_uint4(
          added(y.x, addend.x), added(y.y, addend.y), added(y.z, addend.z), added(y.w, addend.w));
    } else {
      static_cast<uint2*>(params.output)[i] = make_uint2(quantised(y.x, y.y, params.inverse_scale),
                                                         quantised(y.z, y.w, params.inverse_scale));
    }
  }
}

}  // namespace fovea::remainder
