// The two SIMD passes of the resize. Both compute exactly Pillow's 32-bit sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "image/resize_weights.hpp"

namespace fovea::image {

/// Rows that one call of resize_row_band works on, so that weights are read once for all of them.
inline constexpr int kBandRows = 8;

/// Source rows must be readable, and output rows writable, this far past their last pixel.
inline constexpr std::size_t kRowPadding = 32;

using SourceBand = std::array<const std::uint8_t*, kBandRows>;
using OutputBand = std::array<std::uint8_t*, kBandRows>;

/// Resizes kBandRows rows of axis.in RGB pixels to axis.out pixels each. Rows may repeat.
void resize_row_band(const SourceBand& rows, const AxisWeights& axis, const OutputBand& out);

/// Blends whole rows: out[i] = sum over t of rows[t][i] * weight t, for `bytes` bytes.
/// `rows` holds `groups` * kTapsPerGroup pointers (those of zero weight too), `words` their
/// weights; rows must be readable kRowPadding past `bytes`, `out` is written exactly.
void blend_rows(const std::uint8_t* const* rows, const std::int32_t* words, int groups,
                std::size_t bytes, std::uint8_t* out);

/// The name of the instruction set that the passes use on this machine, such as "AVX2".
[[nodiscard]] const char* resize_target();

}  // namespace fovea::image
