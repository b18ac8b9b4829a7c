// The two 16-bit element types of attention, with their matrix products and packing.
#pragma once

#include <cstdint>

#include "kernels/ptx/math.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace fovea::attention {

struct Bf16 {
  static constexpr std::uint32_t kOnes = 0x3f803f80;  // 1.0 in both halves
  template <int N, int kTransB = 0>
  using Wgmma = ptx::WgmmaBf16<N, kTransB>;
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    return ptx::cvt_bf16x2(low, high);
  }
  static __device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
    ptx::mma_m16n8k16_bf16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  static __device__ __forceinline__ float low(std::uint32_t packed) {
    return ptx::bf16_low(packed);
  }
  static __device__ __forceinline__ float high(std::uint32_t packed) {
    return ptx::bf16_high(packed);
  }
};

struct F16 {
  static constexpr std::uint32_t kOnes = 0x3c003c00;
  template <int N, int kTransB = 0>
  using Wgmma = ptx::WgmmaF16<N, kTransB>;
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    return ptx::cvt_f16x2(low, high);
  }
  static __device__ __forceinline__ void mma(float (&d)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
    ptx::mma_m16n8k16_f16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  static __device__ __forceinline__ float low(std::uint32_t packed) { return ptx::f16_low(packed); }
  static __device__ __forceinline__ float high(std::uint32_t packed) {
    return ptx::f16_high(packed);
  }
};

}  // namespace fovea::attention
