// Matrices in shared memory as wgmma and tcgen05.mma find them: the descriptor, and where each
// element is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/program/support.hpp"

namespace emu {

/// Bits 62-63 of a descriptor; sm_100 has three bits for them, the lowest of which is 0 in these.
enum class Swizzle : std::uint8_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

/// Bytes that are moved as one.
constexpr std::uint32_t kChunkBytes = 16;

/// Descriptor of sm_90 (PTX ISA 9.7.15.5.1.2.2) and sm_100 (9.7.16.4.1), in bytes.
struct MatrixDescriptor {
  std::uint32_t start = 0;  // in the block's shared memory
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t base_offset = 0;  // bits 7-9 of where the swizzle's pattern begins
  Swizzle swizzle = Swizzle::kNone;

  /// Bits that mean nothing are dropped.
  [[nodiscard]] static MatrixDescriptor from_bits(std::uint64_t bits);
};

/// An operand of a product: rows of A or columns of B ("lines"), and their elements along K.
struct MatrixShape {
  std::size_t lines = 0;
  std::size_t depth = 0;
  std::size_t element_bytes = 0;
  bool is_k_major = true;  // elements of a line lie together; else the lines of one k
};

/// Calls use(line, k) for the first element of each 16 bytes of the first lines.
template <typename Use>
void for_each_chunk(const MatrixShape& shape, std::size_t lines, Use&& use) {
  const std::size_t together = kChunkBytes / shape.element_bytes;
  for (std::size_t line = 0; line < lines; line += shape.is_k_major ? 1 : together) {
    for (std::size_t k = 0; k < shape.depth; k += shape.is_k_major ? together : 1) {
      use(line, k);
    }
  }
}

/// Checks a descriptor of such a matrix of sm_90: no reserved bits, rows within the swizzle.
Support check_matrix(std::uint64_t bits, const MatrixShape& shape);
/// Checks the fields of a descriptor without reserved bits.
Support check_matrix(const MatrixDescriptor& descriptor, const MatrixShape& shape);

/// The address of an element in the block's shared memory. Those that make up 16 bytes, along K or
/// along the lines, lie together.
///
/// The layouts without their swizzle are the canonical ones of 9.7.15.5.1.2.1.3. The swizzle then
/// changes bits 4-6 of the address by its bits 7-9, as many as its width needs, counted from where
/// the pattern begins.
std::uint32_t address_of(const MatrixDescriptor& descriptor, const MatrixShape& shape,
                         std::size_t line, std::size_t k);

}  // namespace emu
