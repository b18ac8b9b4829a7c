// MXFP8: numbers of e4m3 in blocks of 32 along a row, each block with a power of two as its scale
// (OCP Microscaling Formats v1.0). No number of a block saturates, so nothing is calibrated.
//
// A tensor of DType::kMXFP8 is stored as its numbers, row by row, followed by the scales of its
// blocks in the layout of Blackwell's tensor memory: atoms of 512 bytes for 128 rows and 4 blocks,
// in which the four bytes of row r are at (r % 32) * 16 + (r / 32) * 4; the atoms of the same 128
// rows are adjacent (CUTLASS, include/cutlass/detail/sm100_blockscaled_layout.hpp). Entries beyond
// the rows and blocks of the tensor are kNoBlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/divide_up.hpp"
#include "core/dtype.hpp"

namespace fovea::ops {

inline constexpr std::int64_t kScaleBlock = 32;  // numbers; the last of a row may have fewer
inline constexpr std::int64_t kAtomRows = 128;
inline constexpr std::int64_t kAtomBlocks = 4;
inline constexpr std::int64_t kAtomBytes = kAtomRows * kAtomBlocks;
/// The scale 2^-127, for padding whose numbers are zero.
inline constexpr Float8E8M0 kNoBlock{0};

/// The layout of the scales of a matrix [rows, width].
struct BlockScales {
  std::int64_t rows = 0;
  std::int64_t width = 0;

  /// Number of blocks in a row.
  [[nodiscard]] constexpr std::int64_t blocks() const { return divide_up(width, kScaleBlock); }
  [[nodiscard]] constexpr std::int64_t bytes() const {
    return divide_up(rows, kAtomRows) * divide_up(blocks(), kAtomBlocks) * kAtomBytes;
  }
  /// Index of the byte with the scale of a block.
  [[nodiscard]] constexpr std::int64_t place(std::int64_t row, std::int64_t block) const {
    constexpr std::int64_t kLanes = 32;
    const std::int64_t atom =
        row / kAtomRows * divide_up(blocks(), kAtomBlocks) + block / kAtomBlocks;
    const std::int64_t in_atom = row % kAtomRows;
    return atom * kAtomBytes + in_atom % kLanes * (kAtomBytes / kLanes) +
           in_atom / kLanes * kAtomBlocks + block % kAtomBlocks;
  }
  /// Offset of the first scale, in bytes from the first number of the matrix.
  [[nodiscard]] constexpr std::int64_t offset() const {
    return divide_up(rows * width, kAtomBytes) * kAtomBytes;
  }
};

/// Size of a matrix of any type in bytes, including the scales of its blocks.
[[nodiscard]] constexpr std::size_t matrix_bytes(DType type, std::int64_t rows,
                                                 std::int64_t width) {
  const BlockScales scales{rows, width};
  return type == DType::kMXFP8 ? static_cast<std::size_t>(scales.offset() + scales.bytes())
                               : static_cast<std::size_t>(rows * width) * size_of(type);
}

/// Returns the scale of a block with this largest magnitude: the smallest power of two for which
/// magnitude / scale is at most 448; NaN if the magnitude is not finite. (Section 6.3 of the
/// specification rounds the power down, so that the largest number may saturate; arXiv:2506.08027
/// proposes to round it up.)
[[nodiscard]] Float8E8M0 block_scale(float largest);

/// Rounds one block to nearest even. NaN and infinity become NaN.
[[nodiscard]] Float8E8M0 round_block(std::span<const float> values, std::span<Float8E4M3> numbers);

/// A matrix [rows, width] rounded to MXFP8: its numbers, and the scales of its blocks.
struct RoundedBlocks {
  std::vector<Float8E4M3> numbers;
  std::vector<Float8E8M0> scales;
};
[[nodiscard]] RoundedBlocks round_to_blocks(std::span<const float> values, std::int64_t rows,
                                            std::int64_t width);

}  // namespace fovea::ops
