// wgmma: matrix products of a warpgroup, D (64, N) f32 or s32 += A (64, K) B (N, K)^T (PTX
// ISA 9.7.15).
//
// A and B are in shared memory and given by descriptors (kernels/tile/descriptor.cuh), or A is in
// registers. Register r of a thread's D has row 16 * warp + lane / 4 + 8 * (r / 2 % 2) and column 8
// * (r / 4) + 2 * (lane % 4) + r % 2.
#pragma once

#include <cstdint>

namespace fovea::ptx {

/// Must be called before the first wgmma, and when other instructions have written registers that a
/// wgmma uses.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `kPending` committed groups are still running.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving uses of a register across the wgmmas that own it.
__device__ __forceinline__ void wgmma_fence_operand(float& value) {
  asm volatile("" : "+f"(value)::"memory");
}
__device__ __forceinline__ void wgmma_fence_operand(std::int32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}
__device__ __forceinline__ void wgmma_fence_operand(std::uint32_t& value) {
  asm volatile("" : "+r"(value)::"memory");
}

/// The same for all accumulators, after the wait for the products that own them.
template <typename Accumulator, int kRegisters>
__device__ __forceinline__ void wgmma_fence_operands(Accumulator (&accumulators)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    wgmma_fence_operand(accumulators[i]);
  }
}

// Operand lists for N / 2 accumulators: the placeholders in the instruction, and the constraints.
#define FOVEA_WGMMA_P4 "%0, %1, %2, %3"
#define FOVEA_WGMMA_P8 FOVEA_WGMMA_P4 ", %4, %5, %6, %7"
#define FOVEA_WGMMA_P12 FOVEA_WGMMA_P8 ", %8, %9, %10, %11"
#define FOVEA_WGMMA_P16 FOVEA_WGMMA_P12 ", %12, %13, %14, %15"
#define FOVEA_WGMMA_P20 FOVEA_WGMMA_P16 ", %16, %17, %18, %19"
#define FOVEA_WGMMA_P24 FOVEA_WGMMA_P20 ", %20, %21, %22, %23"
#define FOVEA_WGMMA_P28 FOVEA_WGMMA_P24 ", %24, %25, %26, %27"
#define FOVEA_WGMMA_P32 FOVEA_WGMMA_P28 ", %28, %29, %30, %31"
#define FOVEA_WGMMA_P36 FOVEA_WGMMA_P32 ", %32, %33, %34, %35"
#define FOVEA_WGMMA_P40 FOVEA_WGMMA_P36 ", %36, %37, %38, %39"
#define FOVEA_WGMMA_P44 FOVEA_WGMMA_P40 ", %40, %41, %42, %43"
#define FOVEA_WGMMA_P48 FOVEA_WGMMA_P44 ", %44, %45, %46, %47"
#define FOVEA_WGMMA_P52 FOVEA_WGMMA_P48 ", %48, %49, %50, %51"
#define FOVEA_WGMMA_P56 FOVEA_WGMMA_P52 ", %52, %53, %54, %55"
#define FOVEA_WGMMA_P60 FOVEA_WGMMA_P56 ", %56, %57, %58, %59"
#define FOVEA_WGMMA_P64 FOVEA_WGMMA_P60 ", %60, %61, %62, %63"
#define FOVEA_WGMMA_P68 FOVEA_WGMMA_P64 ", %64, %65, %66, %67"
#define FOVEA_WGMMA_P72 FOVEA_WGMMA_P68 ", %68, %69, %70, %71"
#define FOVEA_WGMMA_P76 FOVEA_WGMMA_P72 ", %72, %73, %74, %75"
#define FOVEA_WGMMA_P80 FOVEA_WGMMA_P76 ", %76, %77, %78, %79"
#define FOVEA_WGMMA_P84 FOVEA_WGMMA_P80 ", %80, %81, %82, %83"
#define FOVEA_WGMMA_P88 FOVEA_WGMMA_P84 ", %84, %85, %86, %87"
#define FOVEA_WGMMA_P92 FOVEA_WGMMA_P88 ", %88, %89, %90, %91"
#define FOVEA_WGMMA_P96 FOVEA_WGMMA_P92 ", %92, %93, %94, %95"
#define FOVEA_WGMMA_P100 FOVEA_WGMMA_P96 ", %96, %97, %98, %99"
#define FOVEA_WGMMA_P104 FOVEA_WGMMA_P100 ", %100, %101, %102, %103"
#define FOVEA_WGMMA_P108 FOVEA_WGMMA_P104 ", %104, %105, %106, %107"
#define FOVEA_WGMMA_P112 FOVEA_WGMMA_P108 ", %108, %109, %110, %111"
#define FOVEA_WGMMA_P116 FOVEA_WGMMA_P112 ", %112, %113, %114, %115"
#define FOVEA_WGMMA_P120 FOVEA_WGMMA_P116 ", %116, %117, %118, %119"
#define FOVEA_WGMMA_P124 FOVEA_WGMMA_P120 ", %120, %121, %122, %123"
#define FOVEA_WGMMA_P128 FOVEA_WGMMA_P124 ", %124, %125, %126, %127"
#define FOVEA_WGMMA_Q(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define FOVEA_WGMMA_C4(C) FOVEA_WGMMA_Q(C, 0)
#define FOVEA_WGMMA_C8(C) FOVEA_WGMMA_C4(C), FOVEA_WGMMA_Q(C, 4)
#define FOVEA_WGMMA_C12(C) FOVEA_WGMMA_C8(C), FOVEA_WGMMA_Q(C, 8)
#define FOVEA_WGMMA_C16(C) FOVEA_WGMMA_C12(C), FOVEA_WGMMA_Q(C, 12)
#define FOVEA_WGMMA_C20(C) FOVEA_WGMMA_C16(C), FOVEA_WGMMA_Q(C, 16)
#define FOVEA_WGMMA_C24(C) FOVEA_WGMMA_C20(C), FOVEA_WGMMA_Q(C, 20)
#define FOVEA_WGMMA_C28(C) FOVEA_WGMMA_C24(C), FOVEA_WGMMA_Q(C, 24)
#define FOVEA_WGMMA_C32(C) FOVEA_WGMMA_C28(C), FOVEA_WGMMA_Q(C, 28)
#define FOVEA_WGMMA_C36(C) FOVEA_WGMMA_C32(C), FOVEA_WGMMA_Q(C, 32)
#define FOVEA_WGMMA_C40(C) FOVEA_WGMMA_C36(C), FOVEA_WGMMA_Q(C, 36)
#define FOVEA_WGMMA_C44(C) FOVEA_WGMMA_C40(C), FOVEA_WGMMA_Q(C, 40)
#define FOVEA_WGMMA_C48(C) FOVEA_WGMMA_C44(C), FOVEA_WGMMA_Q(C, 44)
#define FOVEA_WGMMA_C52(C) FOVEA_WGMMA_C48(C), FOVEA_WGMMA_Q(C, 48)
#define FOVEA_WGMMA_C56(C) FOVEA_WGMMA_C52(C), FOVEA_WGMMA_Q(C, 52)
#define FOVEA_WGMMA_C60(C) FOVEA_WGMMA_C56(C), FOVEA_WGMMA_Q(C, 56)
#define FOVEA_WGMMA_C64(C) FOVEA_WGMMA_C60(C), FOVEA_WGMMA_Q(C, 60)
#define FOVEA_WGMMA_C68(C) FOVEA_WGMMA_C64(C), FOVEA_WGMMA_Q(C, 64)
#define FOVEA_WGMMA_C72(C) FOVEA_WGMMA_C68(C), FOVEA_WGMMA_Q(C, 68)
#define FOVEA_WGMMA_C76(C) FOVEA_WGMMA_C72(C), FOVEA_WGMMA_Q(C, 72)
#define FOVEA_WGMMA_C80(C) FOVEA_WGMMA_C76(C), FOVEA_WGMMA_Q(C, 76)
#define FOVEA_WGMMA_C84(C) FOVEA_WGMMA_C80(C), FOVEA_WGMMA_Q(C, 80)
#define FOVEA_WGMMA_C88(C) FOVEA_WGMMA_C84(C), FOVEA_WGMMA_Q(C, 84)
#define FOVEA_WGMMA_C92(C) FOVEA_WGMMA_C88(C), FOVEA_WGMMA_Q(C, 88)
#define FOVEA_WGMMA_C96(C) FOVEA_WGMMA_C92(C), FOVEA_WGMMA_Q(C, 92)
#define FOVEA_WGMMA_C100(C) FOVEA_WGMMA_C96(C), FOVEA_WGMMA_Q(C, 96)
#define FOVEA_WGMMA_C104(C) FOVEA_WGMMA_C100(C), FOVEA_WGMMA_Q(C, 100)
#define FOVEA_WGMMA_C108(C) FOVEA_WGMMA_C104(C), FOVEA_WGMMA_Q(C, 104)
#define FOVEA_WGMMA_C112(C) FOVEA_WGMMA_C108(C), FOVEA_WGMMA_Q(C, 108)
#define FOVEA_WGMMA_C116(C) FOVEA_WGMMA_C112(C), FOVEA_WGMMA_Q(C, 112)
#define FOVEA_WGMMA_C120(C) FOVEA_WGMMA_C116(C), FOVEA_WGMMA_Q(C, 116)
#define FOVEA_WGMMA_C124(C) FOVEA_WGMMA_C120(C), FOVEA_WGMMA_Q(C, 120)
#define FOVEA_WGMMA_C128(C) FOVEA_WGMMA_C124(C), FOVEA_WGMMA_Q(C, 124)
#define FOVEA_WGMMA_F32(x) "+f"(x)
#define FOVEA_WGMMA_S32(x) "+r"(x)

// Calls X for each shape, with N, its accumulators, and the numbers of the seven operands after
// them.
#define FOVEA_WGMMA_WIDTHS(X)               \
  X(8, 4, 5, 6, 7, 8, 9, 10)                \
  X(16, 8, 9, 10, 11, 12, 13, 14)           \
  X(24, 12, 13, 14, 15, 16, 17, 18)         \
  X(32, 16, 17, 18, 19, 20, 21, 22)         \
  X(40, 20, 21, 22, 23, 24, 25, 26)         \
  X(48, 24, 25, 26, 27, 28, 29, 30)         \
  X(56, 28, 29, 30, 31, 32, 33, 34)         \
  X(64, 32, 33, 34, 35, 36, 37, 38)         \
  X(72, 36, 37, 38, 39, 40, 41, 42)         \
  X(80, 40, 41, 42, 43, 44, 45, 46)         \
  X(88, 44, 45, 46, 47, 48, 49, 50)         \
  X(96, 48, 49, 50, 51, 52, 53, 54)         \
  X(104, 52, 53, 54, 55, 56, 57, 58)        \
  X(112, 56, 57, 58, 59, 60, 61, 62)        \
  X(120, 60, 61, 62, 63, 64, 65, 66)        \
  X(128, 64, 65, 66, 67, 68, 69, 70)        \
  X(136, 68, 69, 70, 71, 72, 73, 74)        \
  X(144, 72, 73, 74, 75, 76, 77, 78)        \
  X(152, 76, 77, 78, 79, 80, 81, 82)        \
  X(160, 80, 81, 82, 83, 84, 85, 86)        \
  X(168, 84, 85, 86, 87, 88, 89, 90)        \
  X(176, 88, 89, 90, 91, 92, 93, 94)        \
  X(184, 92, 93, 94, 95, 96, 97, 98)        \
  X(192, 96, 97, 98, 99, 100, 101, 102)     \
  X(200, 100, 101, 102, 103, 104, 105, 106) \
  X(208, 104, 105, 106, 107, 108, 109, 110) \
  X(216, 108, 109, 110, 111, 112, 113, 114) \
  X(224, 112, 113, 114, 115, 116, 117, 118) \
  X(232, 116, 117, 118, 119, 120, 121, 122) \
  X(240, 120, 121, 122, 123, 124, 125, 126) \
  X(248, 124, 125, 126, 127, 128, 129, 130) \
  X(256, 128, 129, 130, 131, 132, 133, 134)
// The same for integer types, which have fewer shapes.
#define FOVEA_WGMMA_INTEGER_WIDTHS(X)       \
  X(8, 4, 5, 6, 7, 8, 9, 10)                \
  X(16, 8, 9, 10, 11, 12, 13, 14)           \
  X(24, 12, 13, 14, 15, 16, 17, 18)         \
  X(32, 16, 17, 18, 19, 20, 21, 22)         \
  X(48, 24, 25, 26, 27, 28, 29, 30)         \
  X(64, 32, 33, 34, 35, 36, 37, 38)         \
  X(80, 40, 41, 42, 43, 44, 45, 46)         \
  X(96, 48, 49, 50, 51, 52, 53, 54)         \
  X(112, 56, 57, 58, 59, 60, 61, 62)        \
  X(128, 64, 65, 66, 67, 68, 69, 70)        \
  X(144, 72, 73, 74, 75, 76, 77, 78)        \
  X(160, 80, 81, 82, 83, 84, 85, 86)        \
  X(176, 88, 89, 90, 91, 92, 93, 94)        \
  X(192, 96, 97, 98, 99, 100, 101, 102)     \
  X(208, 104, 105, 106, 107, 108, 109, 110) \
  X(224, 112, 113, 114, 115, 116, 117, 118) \
  X(240, 120, 121, 122, 123, 124, 125, 126) \
  X(256, 128, 129, 130, 131, 132, 133, 134)

/// D += A B^T (D = A B^T unless `accumulate`) for 16-bit elements and K = 16, with a descriptor for
/// each operand. kTransB = 1: B's shared memory is (K, N), with N contiguous.
template <int N, int kTransB = 0>
struct WgmmaBf16;
template <int N, int kTransB = 0>
struct WgmmaF16;
/// The same for one-byte elements and K = 32.
template <int N>
struct WgmmaE4m3;
template <int N>
struct WgmmaU8S8;
template <int N>
struct WgmmaS8S8;

#define FOVEA_WGMMA_SETUP(p) "{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\n"

#define FOVEA_WGMMA_16(Name, type, N, r, r1, r2, r3, r4, r5, r6)                                   \
  template <int kTransB>                                                                           \
  struct Name<N, kTransB> {                                                                        \
    static __device__ __forceinline__ void ss(float (&d)[r], std::uint64_t a, std::uint64_t b,     \
                                              int accumulate) {                                    \
      asm volatile(FOVEA_WGMMA_SETUP(r2) "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type    \
                                         "." type " {" FOVEA_WGMMA_P##r                            \
                   "}, %" #r ", %" #r1 ", p, 1, 1, 0, %" #r3 ";\n}\n"                              \
                   : FOVEA_WGMMA_C##r(FOVEA_WGMMA_F32)                                             \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransB));                               \
    }                                                                                              \
    static __device__ __forceinline__ void rs(float (&d)[r], const std::uint32_t (&a)[4],          \
                                              std::uint64_t b, int accumulate) {                   \
      asm volatile(FOVEA_WGMMA_SETUP(r5) "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type    \
                                         "." type " {" FOVEA_WGMMA_P##r                            \
                   "}, {%" #r ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, 1, 1, %" #r6 ";\n}\n" \
                   : FOVEA_WGMMA_C##r(FOVEA_WGMMA_F32)                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),          \
                     "n"(kTransB));                                                                \
    }                                                                                              \
  };

#define FOVEA_WGMMA_8(Name, Type, types, constraint, scales, N, r, r1, r2, r3, r4, r5, r6)      \
  template <>                                                                                   \
  struct Name<N> {                                                                              \
    static __device__ __forceinline__ void ss(Type (&d)[r], std::uint64_t a, std::uint64_t b,   \
                                              int accumulate) {                                 \
      asm volatile(FOVEA_WGMMA_SETUP(r2) "wgmma.mma_async.sync.aligned.m64n" #N "k32." types    \
                                         " {" FOVEA_WGMMA_P##r "}, %" #r ", %" #r1 ", p" scales \
                                                               ";\n}\n"                         \
                   : FOVEA_WGMMA_C##r(constraint)                                               \
                   : "l"(a), "l"(b), "r"(accumulate));                                          \
    }                                                                                           \
    static __device__ __forceinline__ void rs(Type (&d)[r], const std::uint32_t (&a)[4],        \
                                              std::uint64_t b, int accumulate) {                \
      asm volatile(FOVEA_WGMMA_SETUP(r5) "wgmma.mma_async.sync.aligned.m64n" #N "k32." types    \
                                         " {" FOVEA_WGMMA_P##r                                  \
                   "}, {%" #r ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p" scales ";\n}\n"    \
                   : FOVEA_WGMMA_C##r(constraint)                                               \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));      \
    }                                                                                           \
  };

#define FOVEA_WGMMA_FLOATS(...)                  \
  FOVEA_WGMMA_16(WgmmaBf16, "bf16", __VA_ARGS__) \
  FOVEA_WGMMA_16(WgmmaF16, "f16", __VA_ARGS__)   \
  FOVEA_WGMMA_8(WgmmaE4m3, float, "f32.e4m3.e4m3", FOVEA_WGMMA_F32, ", 1, 1", __VA_ARGS__)
#define FOVEA_WGMMA_INTEGERS(...)                                                       \
  FOVEA_WGMMA_8(WgmmaU8S8, std::int32_t, "s32.u8.s8", FOVEA_WGMMA_S32, "", __VA_ARGS__) \
  FOVEA_WGMMA_8(WgmmaS8S8, std::int32_t, "s32.s8.s8", FOVEA_WGMMA_S32, "", __VA_ARGS__)

FOVEA_WGMMA_WIDTHS(FOVEA_WGMMA_FLOATS)
FOVEA_WGMMA_INTEGER_WIDTHS(FOVEA_WGMMA_INTEGERS)

}  // namespace fovea::ptx
