// Descriptors of tcgen05 products, for the layout of a tile in shared memory (PTX ISA 9.7.16.4.1)
// and for the operation (9.7.16.4.2), and the products of a pair of CTAs over a block of K.
#pragma once

#include <cstdint>

#include "kernels/ptx/tcgen05.cuh"
#include "kernels/tile/input.hpp"

namespace fovea::tile {

/// 128-byte swizzle, in bits 61-63 of the shared-memory descriptor.
inline constexpr std::uint64_t kUmmaSwizzle128 = 2;
/// Constant value of bits 46-48 of the shared-memory descriptor.
inline constexpr std::uint64_t kUmmaVersion = 1;

/// Returns the descriptor of a K-major tile with rows of 128 bytes and 128-byte swizzle, as loaded
/// by TMA, at the shared-memory address `address`, a multiple of 1024. Groups of eight rows are
/// contiguous. To advance by 32 bytes along K, add 32 to the address (umma_advance()).
__device__ __forceinline__ std::uint64_t umma_descriptor_k128(std::uint32_t address) {
  constexpr std::uint64_t kUnused = 1;          // offset between groups along K; there is only one
  constexpr std::uint64_t kStride = 1024 >> 4;  // offset between groups of eight rows
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | kUnused << 16 | kStride << 32 |
         kUmmaVersion << 46 | kUmmaSwizzle128 << 61;
}

/// Returns the descriptor of an atom of scales: 32 contiguous rows of 16 bytes, without swizzle.
__device__ __forceinline__ std::uint64_t umma_descriptor_atom(std::uint32_t address) {
  constexpr std::uint64_t kStride = 128 >> 4;  // offset between groups of eight rows
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | kStride << 32 | kUmmaVersion << 46;
}

/// Returns the descriptor advanced by `bytes`.
__device__ __forceinline__ std::uint64_t umma_advance(std::uint64_t descriptor,
                                                      std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

/// The types of a product, as encoded in the instruction descriptor: D in bits 4-5 (f32 is 1, s32
/// is 2), A and B in bits 7-9 and 10-12, with values that depend on the kind of product.
struct UmmaTypes {
  std::uint32_t d, a, b;
};

/// Returns the instruction descriptor of a dense product (rows, columns) of K-major operands,
/// without negation.
[[nodiscard]] constexpr std::uint32_t umma_instruction(UmmaTypes types, int rows, int columns) {
  return types.d << 4 | types.a << 7 | types.b << 10 |
         static_cast<std::uint32_t>(columns / 8) << 17 |
         static_cast<std::uint32_t>(rows / 16) << 24;
}

template <Input kInput>
struct UmmaOf;
template <>
struct UmmaOf<Input::kBF16> {
  using Accumulator = float;
  static constexpr UmmaTypes kTypes{1, 1, 1};
  static __device__ __forceinline__ void mma(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                             std::uint32_t instruction, bool accumulate) {
    ptx::tcgen05_mma_f16_pair(d, a, b, instruction, accumulate);
  }
};
template <>
struct UmmaOf<Input::kE4M3> {
  using Accumulator = float;
  static constexpr UmmaTypes kTypes{1, 0, 0};
  static __device__ __forceinline__ void mma(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                             std::uint32_t instruction, bool accumulate) {
    ptx::tcgen05_mma_f8f6f4_pair(d, a, b, instruction, accumulate);
  }
};
template <>
struct UmmaOf<Input::kU8S8> {
  using Accumulator = std::int32_t;
  static constexpr UmmaTypes kTypes{2, 0, 1};
  static __device__ __forceinline__ void mma(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                             std::uint32_t instruction, bool accumulate) {
    ptx::tcgen05_mma_i8_pair(d, a, b, instruction, accumulate);
  }
};
template <>
struct UmmaOf<Input::kS8S8> {
  using Accumulator = std::int32_t;
  static constexpr UmmaTypes kTypes{2, 1, 1};
  static __device__ __forceinline__ void mma(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                             std::uint32_t instruction, bool accumulate) {
    ptx::tcgen05_mma_i8_pair(d, a, b, instruction, accumulate);
  }
};

/// For MXFP8 the bits of D's type belong to another field.
template <>
struct UmmaOf<Input::kMXFP8> {
  using Accumulator = float;
  static constexpr UmmaTypes kTypes{0, 0, 0};
};

/// Accumulates a product (256, kColumns) over 128 bytes of K at `d` in tensor memory. Each of the
/// two CTAs has 128 rows of A and kColumns / 2 rows of B, at the same addresses. Called by one
/// thread of the first CTA.
template <Input kInput, int kColumns>
struct UmmaPair {
  static constexpr int kRows = 256;
  static constexpr std::uint32_t kInstruction =
      umma_instruction(UmmaOf<kInput>::kTypes, kRows, kColumns);

  static __device__ __forceinline__ void multiply_block(std::uint32_t d, std::uint32_t a,
                                                        std::uint32_t b, bool accumulate) {
    constexpr int kStepBytes = 32;  // bytes along K per instruction
    const std::uint64_t descriptor_a = umma_descriptor_k128(a);
    const std::uint64_t descriptor_b = umma_descriptor_k128(b);
#pragma unroll
    for (int step = 0; step < 128 / kStepBytes; ++step) {
      UmmaOf<kInput>::mma(d, umma_advance(descriptor_a, step * kStepBytes),
                          umma_advance(descriptor_b, step * kStepBytes), kInstruction,
                          step > 0 || accumulate);
    }
  }

  /// The same for MXFP8. The scales are in tensor memory: a word for each line, with a byte for
  /// each step.
  static __device__ __forceinline__ void multiply_block(std::uint32_t d, std::uint32_t a,
                                                        std::uint32_t b, std::uint32_t a_scales,
                                                        std::uint32_t b_scales, bool accumulate) {
    constexpr std::uint32_t kStepBytes = 32;
    constexpr std::uint32_t kE8M0 = 1U << 23;  // type of the scales
    const std::uint64_t descriptor_a = umma_descriptor_k128(a);
    const std::uint64_t descriptor_b = umma_descriptor_k128(b);
#pragma unroll
    for (std::uint32_t step = 0; step < 128 / kStepBytes; ++step) {
      ptx::tcgen05_mma_mxf8f6f4_pair(d, umma_advance(descriptor_a, step * kStepBytes),
                                     umma_advance(descriptor_b, step * kStepBytes),
                                     kInstruction | kE8M0 | step << 29 | step << 4, a_scales,
                                     b_scales, step > 0 || accumulate);
    }
  }
};

}  // namespace fovea::tile
