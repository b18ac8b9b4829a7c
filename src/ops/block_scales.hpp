// MXFP8: numbers of e4m3 in blocks of 32 along a row, each block with a power of two as its scale
// (OCP Microscaling Formats v1.0). No number of a block saturates, so nothing is calibrated.
//
// A tensor of DType::kMXFP8 is its numbers, row by row, and then the scales of its blocks in the
// order that Blackwell's tensor memory takes them: atoms of 512 bytes for 128 rows and 4 blocks,
// in which row r has its four bytes at (r % 32) * 16 + (r / 32) * 4; the atoms of 128 rows lie
// beside each other (CUTLASS, include/cutlass/detail/sm100_blockscaled_layout.hpp). What an atom
// has beyond the rows and blocks of the tensor is kNoBlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/divide_up.hpp"
#include "core/dtype.hpp"

namespace fovea::ops {

inline constexpr std::int64_t kScaleBlock = 32;  // numbers; the last block of a row may have fewer
inline constexpr std::int64_t kAtomRows = 128;
inline constexpr std::int64_t kAtomBlocks = 4;
inline constexpr std::int64_t kAtomBytes = kAtomRows * kAtomBlocks;
/// 2^-127: what it multiplies is zero.
inline constexpr Float8E8M0 kNoBlock{0};

/// Where the scales of a matrix [rows, width] lie.
struct BlockScales {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  /// Blocks of a row.
  [[nodiscard]] constexpr std::int64_t blocks() const { return divide_up(width, kScaleBlock); }
  [[nodiscard]] constexpr std::int64_t bytes() const {
    return divide_up(rows, kAtomRows) * divide_up(blocks(), kAtomBlocks) * kAtomBytes;
  }
  /// The byte that has the scale of a row's block.
  [[nodiscard]] constexpr std::int64_t place(std::int64_t row, std::int64_t block) const {
    constexpr std::int64_t kLanes = 32;
    const std::int64_t atom =
        row / kAtomRows * divide_up(blocks(), kAtomBlocks) + block / kAtomBlocks;
    const std::int64_t in_atom = row % kAtomRows;
    return atom * kAtomBytes + in_atom % kLanes * (kAtomBytes / kLanes) +
           in_atom / kLanes * kAtomBlocks + block % kAtomBlocks;
  }
  /// Bytes of the matrix from its first number to its first scale.
  [[nodiscard]] constexpr std::int64_t offset() const {
    return divide_up(rows * width, kAtomBytes) * kAtomBytes;
  }
};

/// Bytes of a matrix of any type, with the scales of its blocks.
[[nodiscard]] constexpr std::size_t matrix_bytes(DType type, std::int64_t rows,
                                                 std::int64_t width) {
  const BlockScales scales{rows, width};
  return type == DType::kMXFP8 ? static_cast<std::size_t>(scales.offset() + scales.bytes())
                               : static_cast<std::size_t>(rows * width) * size_of(type);
}

/// The scale of a block whose largest magnitude is this: the least power of two with which it is at
/// most 448. (The conversion in section 6.3 of the specification takes one power less where the
/// largest then saturates; rounding up instead is arXiv:2506.08027's.) NaN for what is not finite.
[[nodiscard]] Float8E8M0 block_scale(float largest);

/// Rounds one block to nearest even. NaN stays NaN, and infinity becomes it.
[[nodiscard]] Float8E8M0 round_block(std::span<const float> values, std::span<Float8E4M3> numbers);

/// A matrix [rows, width] in MXFP8: its numbers, and the scales of its blocks where they belong.
struct RoundedBlocks {
  std::vector<Float8E4M3> numbers;
  std::vector<Float8E8M0> scales;
};
[[nodiscard]] RoundedBlocks round_to_blocks(std::span<const float> values, std::int64_t rows,
                                            std::int64_t width);

}  // namespace fovea::ops
