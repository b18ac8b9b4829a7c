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

/// Each lane's row of 32 columns from `address` on. The registers are there after
/// tcgen05_wait_ld().
template <typename Value>
__device__ __forceinline__ void tcgen05_ld_32x32b_x32(Value (&to)[32], std::uint32_t address) {
  static_assert(sizeof(Value) == 4);
  std::uint32_t word[32];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]), "=r"(word[4]), "=r"(word[5]),
        "=r"(word[6]), "=r"(word[7]), "=r"(word[8]), "=r"(word[9]), "=r"(word[10]), "=r"(word[11]),
        "=r"(word[12]), "=r"(word[13]), "=r"(word[14]), "=r"(word[15]), "=r"(word[16]),
        "=r"(word[17]), "=r"(word[18]), "=r"(word[19]), "=r"(word[20]), "=r"(word[21]),
        "=r"(word[22]), "=r"(word[23]), "=r"(word[24]), "=r"(word[25]), "=r"(word[26]),
        "=r"(word[27]), "=r"(word[28]), "=r"(word[29]), "=r"(word[30]), "=r"(word[31])
      : "r"(address)
      : "memory");
  __builtin_memcpy(to, word, sizeof(word));
}

/// This thread's loads from tensor memory are done.
__device__ __forceinline__ void tcgen05_wait_ld() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

}  // namespace fovea::ptx
