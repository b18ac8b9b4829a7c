// tcgen05: matrix products by pairs of CTAs into tensor memory (PTX ISA 9.7.16). All instructions
// are in the form cta_group::2: the two CTAs of a cluster work on one product.
//
// Tensor memory has 128 lanes by 512 columns of 32 bits in each SM; bits 16-31 of an address are
// the lane, and the lower bits the column. Warp w of a CTA accesses lanes 32 (w % 4) to 32 (w % 4)
// + 31.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.cuh"

namespace fovea::ptx {

/// Allocates kColumns columns of tensor memory, a power of two from 32 to 512, in both CTAs, and
/// writes their address to `to` in shared memory. Called by one warp of each CTA; waits until other
/// allocations leave enough columns.
template <int kColumns>
__device__ __forceinline__ void tcgen05_alloc_pair(std::uint32_t* to) {
  asm volatile(
      "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)),
      "n"(kColumns)
      : "memory");
}

/// Declares that this CTA will not allocate again. Called by the warp that allocated.
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit_pair() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

/// Frees the columns of tcgen05_alloc_pair(). Called by one warp of each CTA.
template <int kColumns>
__device__ __forceinline__ void tcgen05_dealloc_pair(std::uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(kColumns)
               : "memory");
}

/// Orders this thread's earlier tcgen05 operations before those that other threads issue after a
/// barrier.
__device__ __forceinline__ void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/// Orders tcgen05 operations that other threads issued before a barrier before this thread's later
/// ones.
__device__ __forceinline__ void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// D (256, N) = A B^T, or += with `accumulate`, over 32 bytes of K. A and B are shared-memory
// descriptors of the first CTA (kernels/tile/umma.cuh), and apply to both CTAs. Issued by one
// thread of the first CTA.
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

/// Operands of bf16 or f16, accumulation in f32.
__device__ __forceinline__ void tcgen05_mma_f16_pair(std::uint32_t d, std::uint64_t a,
                                                     std::uint64_t b, std::uint32_t instruction,
                                                     bool accumulate) {
  FOVEA_TCGEN05_MMA("f16");
}

/// Operands of 8, 6 or 4-bit floating point, accumulation in f32.
__device__ __forceinline__ void tcgen05_mma_f8f6f4_pair(std::uint32_t d, std::uint64_t a,
                                                        std::uint64_t b, std::uint32_t instruction,
                                                        bool accumulate) {
  FOVEA_TCGEN05_MMA("f8f6f4");
}

/// Operands of u8 or s8, accumulation in s32.
__device__ __forceinline__ void tcgen05_mma_i8_pair(std::uint32_t d, std::uint64_t a,
                                                    std::uint64_t b, std::uint32_t instruction,
                                                    bool accumulate) {
  FOVEA_TCGEN05_MMA("i8");
}

#undef FOVEA_TCGEN05_MMA

/// Operands of e4m3 with a power of two for each row of A and column of B. The scales are in tensor
/// memory from these addresses on: the scale of line 32 j + i is in column j of lane i (and i + 32,
/// ...), in the byte selected by the instruction descriptor. Accumulation in f32.
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

/// Copies 32 rows of 16 bytes, given by a shared-memory descriptor, to four columns of tensor
/// memory from `to` on, in each quarter of the lanes and in each of the two CTAs. Products that
/// this thread issues later see them.
__device__ __forceinline__ void tcgen05_cp_32x128b_pair(std::uint32_t to, std::uint64_t from) {
  asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

/// Arrives on the barrier at this offset in each CTA of the mask `ctas` when all products that this
/// thread has issued are done. It implies tcgen05_fence_before_thread_sync().
__device__ __forceinline__ void tcgen05_commit_multicast_pair(std::uint64_t* barrier,
                                                              std::uint16_t ctas) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%0], %1;" ::"r"(shared_address(barrier)),
      "h"(ctas)
      : "memory");
}

/// Loads 32 columns of each lane's row from `address` on. The registers are valid after
/// tcgen05_wait_ld() and tcgen05_fence_loaded().
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

/// Waits until this thread's loads from tensor memory are done.
__device__ __forceinline__ void tcgen05_wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

/// Keeps the compiler from using the registers of a load before the preceding tcgen05_wait_ld().
template <int kRegisters>
__device__ __forceinline__ void tcgen05_fence_loaded(std::uint32_t (&loaded)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    asm volatile("" : "+r"(loaded[i])::"memory");
  }
}

}  // namespace fovea::ptx
