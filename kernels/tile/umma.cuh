// Descriptors of tcgen05's products: how they find a tile in shared memory (PTX ISA 9.7.16.4.1),
// and what they multiply (9.7.16.4.2); and the products of a pair of CTAs over a block of K.
#pragma once

#include <cstdint>

#include "kernels/ptx/tcgen05.cuh"
#include "kernels/tile/input.hpp"

namespace fovea::tile {

/// Bits 61-63 of the shared-memory descriptor: 128-byte swizzle.
inline constexpr std::uint64_t kUmmaSwizzle128 = 2;
/// Bits 46-48, always so.
inline constexpr std::uint64_t kUmmaVersion = 1;

/// K-major, rows of 128 bytes, 128-byte swizzle: as a box of 128 bytes by rows arrives. The tile is
/// at `address` (shared), a multiple of 1024 bytes; groups of eight rows follow each other. A step
/// of 32 bytes along K is 32 added to the address (tile::umma_advance).
__device__ __forceinline__ std::uint64_t umma_descriptor_k128(std::uint32_t address) {
  constexpr std::uint64_t kUnused = 1;          // between groups along K, of which there is one
  constexpr std::uint64_t kStride = 1024 >> 4;  // between groups of eight rows
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | kUnused << 16 | kStride << 32 |
         kUmmaVersion << 46 | kUmmaSwizzle128 << 61;
}

/// 32 rows of 16 bytes, one after the other, without swizzle: an atom of scales.
__device__ __forceinline__ std::uint64_t umma_descriptor_atom(std::uint32_t address) {
  constexpr std::uint64_t kStride = 128 >> 4;  // between groups of eight rows
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | kStride << 32 | kUmmaVersion << 46;
}

/// A descriptor moved on by `bytes`.
__device__ __forceinline__ std::uint64_t umma_advance(std::uint64_t descriptor,
                                                      std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

/// The types of a product: bits 4-5 of the instruction descriptor, those of D (f32 1, s32 2); 7-9
/// and 10-12, those of A and B, as each kind of product numbers them.
struct UmmaTypes {
  std::uint32_t d, a, b;
};

/// Instruction descriptor of (rows, columns), both operands K-major, dense, nothing negated.
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

/// MXFP8: the bits of D's type are another field's.
template <>
struct UmmaOf<Input::kMXFP8> {
  using Accumulator = float;
  static constexpr UmmaTypes kTypes{0, 0, 0};
};

/// Sums at `d` in tensor memory (256, kColumns) over 128 bytes of K: a tile of A of 128 rows and
/// one of B of kColumns / 2 in each of the two CTAs, at the same addresses. One thread of the
/// first.
template <Input kInput, int kColumns>
struct UmmaPair {
  static constexpr int kRows = 256;
  static constexpr std::uint32_t kInstruction =
      umma_instruction(UmmaOf<kInput>::kTypes, kRows, kColumns);

  static __device__ __forceinline__ void multiply_block(std::uint32_t d, std::uint32_t a,
                                                        std::uint32_t b, bool accumulate) {
    constexpr int kStepBytes = 32;  // of K, an instruction
    const std::uint64_t descriptor_a = umma_descriptor_k128(a);
    const std::uint64_t descriptor_b = umma_descriptor_k128(b);
#pragma unroll
    for (int step = 0; step < 128 / kStepBytes; ++step) {
      UmmaOf<kInput>::mma(d, umma_advance(descriptor_a, step * kStepBytes),
                          umma_advance(descriptor_b, step * kStepBytes), kInstruction,
                          step > 0 || accumulate);
    }
  }

  /// The same of MXFP8, whose scales lie in tensor memory: a word of each line, with a byte for
  /// each step.
  static __device__ __forceinline__ void multiply_block(std::uint32_t d, std::uint32_t a,
                                                        std::uint32_t b, std::uint32_t a_scales,
                                                        std::uint32_t b_scales, bool accumulate) {
    constexpr std::uint32_t kStepBytes = 32;
    constexpr std::uint32_t kE8M0 = 1U << 23;  // the scales' type
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
