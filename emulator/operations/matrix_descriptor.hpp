// Matrix descriptors of wgmma and tcgen05.mma: their checks, and the address of each element.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "emulator/program/check_result.hpp"

namespace emu {

/// Bits 62-63 of a descriptor. sm_100 has three bits for the swizzle; the lowest is 0 for these
/// modes.
enum class Swizzle : std::uint8_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

/// Size of a chunk, the unit that a swizzle moves.
constexpr std::uint32_t kChunkBytes = 16;

/// Descriptor for sm_90 (PTX ISA 9.7.15.5.1.2.2) and sm_100 (9.7.16.4.1); sizes in bytes.
struct MatrixDescriptor {
  std::uint32_t start = 0;  // address in the block's shared memory
  std::uint32_t leading = 0;
  std::uint32_t stride = 0;
  std::uint32_t base_offset = 0;  // bits 7-9 of the address where the swizzle's pattern begins
  Swizzle swizzle = Swizzle::kNone;

  /// Decodes a descriptor. Unused bits are ignored.
  [[nodiscard]] static MatrixDescriptor from_bits(std::uint64_t bits);
};

/// Shape of a product's operand: rows of A or columns of B ("lines"), and their elements along K.
struct MatrixShape {
  std::size_t lines = 0;
  std::size_t depth = 0;
  std::size_t element_bytes = 0;
  bool is_k_major = true;  // the elements of a line are contiguous; otherwise those with the same k
};

/// Calls use(line, k) for the first element of each chunk of the first lines.
template <typename Use>
void for_each_chunk(const MatrixShape& shape, std::size_t lines, Use&& use) {
  const std::size_t chunk_elements = kChunkBytes / shape.element_bytes;
  for (std::size_t line = 0; line < lines; line += shape.is_k_major ? 1 : chunk_elements) {
    for (std::size_t k = 0; k < shape.depth; k += shape.is_k_major ? chunk_elements : 1) {
      use(line, k);
    }
  }
}

/// Checks an sm_90 descriptor of a matrix of this shape: no reserved bits are set, and rows stay
/// within the swizzle.
CheckResult check_matrix(std::uint64_t bits, const MatrixShape& shape);
/// Checks the fields of a descriptor.
CheckResult check_matrix(const MatrixDescriptor& descriptor, const MatrixShape& shape);

/// Width of a row of the swizzle's pattern in bytes; the pattern has eight rows.
constexpr std::uint32_t pattern_width(Swizzle swizzle) {
  constexpr std::array<std::uint32_t, 4> kWidths = {kChunkBytes, 128, 64, 32};
  return kWidths.at(static_cast<std::size_t>(swizzle));
}

/// Addresses of a matrix's elements in the block's shared memory. The elements of a 16-byte chunk,
/// along K or across the lines, are contiguous.
///
/// Without the swizzle, the layouts are the canonical ones of PTX ISA 9.7.15.5.1.2.1.3. The swizzle
/// then XORs address bits 4-6 with bits 7-9, as many as its width needs, counted from the beginning
/// of the pattern.
class ElementAddresses {
 public:
  ElementAddresses(const MatrixDescriptor& descriptor, const MatrixShape& shape)
      : start_(descriptor.start),
        base_offset_(descriptor.base_offset),
        is_k_major_(shape.is_k_major),
        element_bytes_(static_cast<std::uint32_t>(shape.element_bytes)),
        width_(pattern_width(descriptor.swizzle)),
        shift_(static_cast<unsigned>(std::countr_zero(width_))) {
    const bool is_swapped = !shape.is_k_major && descriptor.swizzle == Swizzle::kNone;
    piece_stride_ = is_swapped ? descriptor.stride : descriptor.leading;
    group_stride_ = is_swapped ? descriptor.leading : descriptor.stride;
  }

  // Avoids divisions, because this is called for every 16 bytes.
  [[nodiscard]] std::uint32_t operator()(std::size_t line, std::size_t k) const {
    // Position in bytes along the contiguous dimension, and index across it.
    const std::uint32_t along = static_cast<std::uint32_t>(is_k_major_ ? k : line) * element_bytes_;
    const auto across = static_cast<std::uint32_t>(is_k_major_ ? line : k);
    const std::uint32_t offset = (along & (width_ - 1)) + (across % 8 << shift_) +
                                 (along >> shift_) * piece_stride_ + across / 8 * group_stride_;
    const std::uint32_t address = start_ + offset;
    const std::uint32_t row = (address >> 7U) - base_offset_;
    return address ^ (row & (width_ / kChunkBytes - 1)) << 4U;
  }

 private:
  std::uint32_t start_;
  std::uint32_t base_offset_;
  bool is_k_major_;
  std::uint32_t element_bytes_;
  std::uint32_t width_;
  unsigned shift_;
  std::uint32_t piece_stride_;  // of the pattern's width along the contiguous dimension
  std::uint32_t group_stride_;  // of eight across it
};

/// Returns the address of one element.
inline std::uint32_t address_of(const MatrixDescriptor& descriptor, const MatrixShape& shape,
                                std::size_t line, std::size_t k) {
  return ElementAddresses(descriptor, shape)(line, k);
}

}  // namespace emu
