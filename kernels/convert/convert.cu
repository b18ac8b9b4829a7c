// Conversion of results to the type that the caller wants: from bf16 or f32 to f16 or f32.
//
// Contract: any number of elements that is a multiple of 8; operands 16-byte aligned. Rounds to
// nearest even; values beyond the range of f16 become infinite, and NaN stays NaN.
#include <cstdint>

#include "kernels/convert/convert_params.hpp"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::convert {
namespace {

constexpr bool kFromF32 = FOVEA_FROM_F32;
constexpr bool kToF32 = FOVEA_TO_F32;

__device__ __forceinline__ void load(const void* input, std::int64_t unit, float (&x)[kUnit]) {
  if constexpr (kFromF32) {
    const auto* const from = static_cast<const float4*>(input) + unit * 2;
    const float4 low = from[0];
    const float4 high = from[1];
    const float all[kUnit] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      x[i] = all[i];
    }
  } else {
    const uint4 packed = static_cast<const uint4*>(input)[unit];
    const std::uint32_t words[kUnit / 2] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < kUnit / 2; ++i) {
      x[2 * i] = ptx::bf16_low(words[i]);
      x[2 * i + 1] = ptx::bf16_high(words[i]);
    }
  }
}

__device__ __forceinline__ void store(void* output, std::int64_t unit, const float (&x)[kUnit]) {
  if constexpr (kToF32) {
    auto* const to = static_cast<float4*>(output) + unit * 2;
    to[0] = {x[0], x[1], x[2], x[3]};
    to[1] = {x[4], x[5], x[6], x[7]};
  } else {
    static_cast<uint4*>(output)[unit] = {ptx::cvt_f16x2(x[0], x[1]), ptx::cvt_f16x2(x[2], x[3]),
                                         ptx::cvt_f16x2(x[4], x[5]), ptx::cvt_f16x2(x[6], x[7])};
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ Params params) {
  const std::int64_t units = params.count / kUnit;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       unit < units; unit += threads) {
    float x[kUnit];
    load(params.input, unit, x);
    store(params.output, unit, x);
  }
}

}  // namespace fovea::convert
