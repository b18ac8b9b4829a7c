// tcgen05: matrix products of a pair of CTAs into tensor memory (PTX ISA 9.7.16). All forms are
// those of cta_group::2: the two CTAs of a cluster work on one product.
//
// Tensor memory has 128 lanes by 512 columns of 32 bits in each SM; an address has the lane in bits
// 16-31 and the column below. Warp w of a CTA reads lanes 32 (w % 4) to 32 (w % 4) + 31.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::ptx {

/// Columns of tensor memory for the pair, a power of two from 32 to 512; where they begin is
/// written to `to` in shared memory. One warp of each of the two CTAs; waits for what others hold.
template <int kColumns>
__device__ __forceinline__ void tcgen05_alloc_pair(std::uint32_t* to) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)),
      "n"(kColumns)
      : "memory");
}

/// No more will be allocated by this CTA. The warp that allocated.
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit_pair() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

/// Gives back what tcgen05_alloc_pair gave. One warp of each of the two CTAs.
template <int kColumns>
__device__ __forceinline__ void tcgen05_dealloc_pair(std::uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(kColumns)
               : "memory");
}

/// What this thread asked of the tensor cores comes before what others do behind a barrier.
__device__ __forceinline__ void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/// What others did before a barrier comes before what this thread asks of the tensor cores.
__device__ __forceinline__ void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// D (256, N) = A B^T, or += where `accumulate`; A and B behind shared-memory descriptors, both as
// the first of the two CTAs has them (kernels/tile/umma.cuh). One thread of the first CTA issues;
// it takes 32 bytes of K.
#define FOVEA_TCGEN05_MMA(kind)                                                     \
  asm volatile(                                                                     \
      "{\n"                                                                         \
      ".reg .pred accumulate;\n"                                                    \
      "setp.ne.b32 accumulate, %4, 0;\n"                                            \
      "tcgen05.mma.cta_group::2.kind::" kind                                        \
      " [%0], %1, %2, %3, accumulate;\n"                                            \
      "}\n" ::"r"(d),                                                               \
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<std::uint32_t>(accumulate)) \
      : "memory")

/// bf16 or f16, sums in f32.
__device__ __forceinline__ void tcgen05_mma_f16_pair(std::uint32_t d, std::uint64_t a,
                                                     std::uint64_t b, std::uint32_t instruction,
                                                     bool accumulate) {
  FOVEA_TCGEN05_MMA("f16");
}

/// The floats of 8, 6 and 4 bits, sums in f32.
__device__ __forceinline__ void tcgen05_mma_f8f6f4_pair(std::uint32_t d, std::uint64_t a,
                                                        std::uint64_t b, std::uint32_t instruction,
                                                        bool accumulate) {
  FOVEA_TCGEN05_MMA("f8f6f4");
}

/// u8 or s8, sums in s32.
__device__ __forceinline__ void tcgen05_mma_i8_pair(std::uint32_t d, std::uint64_t a,
                                                    std::uint64_t b, std::uint32_t instruction,
                                                    bool accumulate) {
  FOVEA_TCGEN05_MMA("i8");
}

#undef FOVEA_TCGEN05_MMA

/// e4m3 with a power of two for each row of A and column of B, which lie in tensor memory from
/// these addresses on: line 32 j + i in lane i (and i + 32, ...) of column j, in the byte that the
/// instruction descriptor names. Sums in f32.
__device__ __forceinline__ void tcgen05_mma_mxf8f6f4_pair(std::uint32_t d, std::uint64_t a,
                                                          std::uint64_t b,
                                                          std::uint32_t instruction,
                                                          std::uint32_t a_scales,
                                                          std::uint32_t b_scales, bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.b32 accumulate, %6, 0;\n"
      "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 "
      "[%0], %1, %2, %3, [%4], [%5], accumulate;\n"
      "}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales),
      "r"(static_cast<std::uint32_t>(accumulate))
      : "memory");
}

/// 32 rows of 16 bytes behind a shared-memory descriptor, in each of the two CTAs, to each quarter
/// of the lanes of its tensor memory: four columns from `to` on. Products that this thread issues
/// later find them there.
__device__ __forceinline__ void tcgen05_cp_32x128b_pair(std::uint32_t to, std::uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

/// Arrives on the barrier at this offset in each CTA named in `ctas` when all products that this
/// thread has issued are done; has the meaning of tcgen05_fence_before_thread_sync() in it.
__device__ __forceinline__ void tcgen05_commit_multicast_pair(std::uint64_t* barrier,
                                                              std::uint16_t ctas) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%0], %1;" ::"r"(shared_address(barrier)),
      "h"(ctas)
      : "memory");
}

/// Each lane's row of 32 columns from `address` on. The registers are there after tcgen05_wait_ld()
/// and tcgen05_fence_loaded().
__device__ __forceinline__ void tcgen05_ld_32x32b_x32(std::uint32_t (&to)[32],
                                                      std::uint32_t address) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]), "=r"(to[4]), "=r"(to[5]), "=r"(to[6]),
        "=r"(to[7]), "=r"(to[8]), "=r"(to[9]), "=r"(to[10]), "=r"(to[11]), "=r"(to[12]),
        "=r"(to[13]), "=r"(to[14]), "=r"(to[15]), "=r"(to[16]), "=r"(to[17]), "=r"(to[18]),
        "=r"(to[19]), "=r"(to[20]), "=r"(to[21]), "=r"(to[22]), "=r"(to[23]), "=r"(to[24]),
        "=r"(to[25]), "=r"(to[26]), "=r"(to[27]), "=r"(to[28]), "=r"(to[29]), "=r"(to[30]),
        "=r"(to[31])
      : "r"(address)
      : "memory");
}

/// This thread's loads from tensor memory are done.
__device__ __forceinline__ void tcgen05_wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

/// Keeps the compiler from touching registers of a load before the wait that comes ahead of this.
template <int kRegisters>
__device__ __forceinline__ void tcgen05_fence_loaded(std::uint32_t (&loaded)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    asm volatile("" : "+r"(loaded[i])::"memory");
  }
}

}  // namespace fovea::ptx
