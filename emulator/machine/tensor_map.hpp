// Tensor maps in memory, and the positions of a box's elements in global and in shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea_emulator/tensor_map.hpp"

namespace emu {

/// Alignment of a map in memory.
constexpr std::uint64_t kTensorMapAlignment = 64;
/// Alignment of a box in shared memory.
constexpr std::uint32_t kBoxAlignment = 128;
/// Smallest unit that a swizzle permutes; all sizes are multiples of it.
constexpr std::uint32_t kBoxUnit = 16;
/// Maximum size of a piece, the bytes that are copied at once.
constexpr std::uint32_t kMaxPiece = 128;

/// Decodes what encode() returned. Throws Error, with the reason, if the bytes are not a map.
TensorMapDesc decode_tensor_map(std::span<const std::byte> bytes);

std::uint32_t bytes_of_element(TensorMapType type);

/// Whether loads round the elements to 10 bits of fraction.
constexpr bool is_rounded(TensorMapType type) {
  return type == TensorMapType::kTF32 || type == TensorMapType::kTF32Ftz;
}

/// How a swizzle permutes the units of each 128 bytes: it XORs a unit's number within the span with
/// the low bits of the number of the 128 bytes.
struct SwizzlePattern {
  std::uint32_t mask = 0;   // for the bits of a unit's number within the span
  std::uint32_t shift = 4;  // binary logarithm of the size of a unit
};
constexpr SwizzlePattern pattern_of(TensorMapSwizzle swizzle) {
  constexpr std::array<SwizzlePattern, 6> kPatterns = {
      {{0, 4}, {1, 4}, {3, 4}, {7, 4}, {3, 5}, {1, 6}}};
  return kPatterns[static_cast<std::size_t>(swizzle)];
}

/// Swizzles the address of 16 bytes in shared memory. The pattern depends on the bits of the
/// address, not on the beginning of the box.
constexpr std::uint32_t swizzled_address(std::uint32_t address, TensorMapSwizzle swizzle) {
  const auto [mask, shift] = pattern_of(swizzle);
  return address ^ ((address >> 7U & mask) << shift);
}

/// Span of a swizzle: the length in bytes of the rows that it permutes.
constexpr std::uint32_t swizzle_span(TensorMapSwizzle swizzle) {
  const auto [mask, shift] = pattern_of(swizzle);
  return (mask + 1) << shift;
}

/// Period of the swizzle's pattern in bytes; 0 without a swizzle.
constexpr std::uint32_t swizzle_period(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::kNone ? 0U : 128U * (pattern_of(swizzle).mask + 1);
}

/// Layout of a map's boxes in shared memory: rows along the innermost dimension, one after the
/// other.
struct BoxShape {
  std::array<std::uint32_t, 5> counts{};  // elements to copy in each dimension
  std::uint64_t rows = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t row_pitch = 0;  // at least the swizzle's span

  /// Bytes that the mbarrier counts for the box, including elements outside of the tensor.
  [[nodiscard]] std::uint64_t bytes() const { return rows * row_bytes; }
  /// Size of the box in shared memory, including padding between rows.
  [[nodiscard]] std::uint64_t extent() const { return rows * row_pitch; }
};

BoxShape box_shape(const TensorMapDesc& map);

/// Part of a row: contiguous in global memory and, before the swizzle, in shared memory.
struct CopyPiece {
  std::uint32_t shared = 0;  // address before the swizzle; a multiple of 16
  std::uint32_t bytes = 0;   // size; a multiple of 16
  std::uint32_t first = 0;   // bytes [first, last) are inside the tensor
  std::uint32_t last = 0;
  std::uint64_t global = 0;  // address of byte `first`
};

/// Splits the box at these coordinates, stored at this address of shared memory, into pieces. A
/// store skips units of 16 bytes that lie outside of the tensor, and writes all other units in
/// full: where a row ends in the middle of a unit, the bytes after it change too.
std::vector<CopyPiece> split_box(const TensorMapDesc& map, std::uint32_t shared,
                                 const std::array<std::int32_t, 5>& coordinates, bool is_store);

/// Splits contiguous bytes into pieces.
std::vector<CopyPiece> split_bytes(std::uint64_t global, std::uint32_t shared, std::uint32_t bytes);

/// Returns byte `index` of the fill value for an element outside of the tensor.
std::byte fill_byte(const TensorMapDesc& map, std::uint32_t index);

}  // namespace emu
