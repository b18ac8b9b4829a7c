// Tensor maps in memory, and where the elements of a box are: in global and in shared memory.
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
/// What a swizzle moves around, and what all sizes are multiples of.
constexpr std::uint32_t kBoxUnit = 16;
/// The most bytes that are copied at once.
constexpr std::uint32_t kMaxPiece = 128;

/// Reverses encode(). Throws Error, with the reason, for what is no map.
TensorMapDesc decode_tensor_map(std::span<const std::byte> bytes);

std::uint32_t bytes_of_element(TensorMapType type);

/// Swizzles the address of a unit in shared memory. The pattern
/// follows the bits of the address, not where the box begins.
constexpr std::uint32_t swizzled(std::uint32_t address, TensorMapSwizzle swizzle) {
  // 0, 1, 3, 7: the bits of a unit's number within the span
  const std::uint32_t mask = (std::uint32_t{1} << static_cast<unsigned>(swizzle)) - 1;
  return address ^ ((address >> 7U & mask) << 4U);
}

/// The swizzle's pattern repeats after so many bytes; 0: there is none.
constexpr std::uint32_t swizzle_period(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::kNone ? 0U : 128U << static_cast<unsigned>(swizzle);
}

/// How boxes of a map lie in shared memory: rows, each of them the innermost dimension, one after
/// the other.
struct BoxShape {
  std::array<std::uint32_t, 5> counts{};  // elements that are copied
  std::uint64_t rows = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t row_pitch = 0;  // a row that is shorter than the swizzle's span fills it

  /// What the transaction counts, elements outside of the tensor too.
  [[nodiscard]] std::uint64_t bytes() const { return rows * row_bytes; }
  /// Bytes of shared memory from its beginning to its end.
  [[nodiscard]] std::uint64_t extent() const { return rows * row_pitch; }
};

BoxShape shape_of_box(const TensorMapDesc& map);

/// Bytes of one row: one after the other in global memory, and in shared memory but for the
/// swizzle.
struct CopyPiece {
  std::uint32_t shared = 0;  // before the swizzle; a multiple of 16
  std::uint32_t bytes = 0;   // a multiple of 16
  std::uint32_t first = 0;   // those from here on are in the tensor,
  std::uint32_t last = 0;    // those from here on are not
  std::uint64_t global = 0;  // the address of byte `first`
};

/// All pieces of the box that begins at these coordinates, at this address of shared memory. A
/// store leaves out units of 16 bytes in which no element is in the tensor, and writes all of the
/// others: where a row ends in the midst of one, the bytes behind it change too.
std::vector<CopyPiece> pieces_of_box(const TensorMapDesc& map, std::uint32_t shared,
                                     const std::array<std::int32_t, 5>& coordinates, bool is_store);

/// The pieces of bytes that lie one after the other.
std::vector<CopyPiece> pieces_of_line(std::uint64_t global, std::uint32_t shared,
                                      std::uint32_t bytes);

/// The value of byte `index` of an element outside of the tensor.
std::byte fill_byte(const TensorMapDesc& map, std::uint32_t index);

}  // namespace emu
