// Addition of a position table or a residual to the result of a library's matrix product.
//
// Contract: whole chunks of 8 elements, operands 16-byte aligned. It represents the element-wise
// kernel that a program needs in addition to cuBLASLt; the laboratory compares the fused kernels
// with both together.
#include <cstdint>

#include "kernels/lab/peer_params.hpp"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::peer {
namespace {

__device__ __forceinline__ std::uint32_t added(std::uint32_t y, std::uint32_t addend) {
  return ptx::cvt_bf16x2(ptx::bf16_low(y) + ptx::bf16_low(addend),
                         ptx::bf16_high(y) + ptx::bf16_high(addend));
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ AddParams params) {
  pipe::wait_for_previous_grids();
  const std::uint32_t step = gridDim.x * kThreads;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < params.chunks; i += step) {
    const uint4 y = static_cast<const uint4*>(params.y)[i];
    const uint4 addend = static_cast<const uint4*>(params.addend)[i % params.period];
    static_cast<uint4*>(params.output)[i] = make_uint4(added(y.x, addend.x), added(y.y, addend.y),
                                                       added(y.z, addend.z), added(y.w, addend.w));
  }
}

}  // namespace fovea::peer
