// Operands of products in the order in which tiles read them.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "cpu/tiles/tile_kernel.hpp"

namespace fovea::cpu {

/// A matrix whose rows lie `stride` elements apart.
struct Rows {
  const void* data = nullptr;
  DType type = DType::kF32;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t width = 0;  // elements of a row
};

/// What tiles add to each i8 of A, for one of their instruction's operands is u8.
inline constexpr int kByteOffset = 128;

/// Whether tiles can read whole rows of A where they lie.
[[nodiscard]] bool is_direct(const TileKernel& kernel, const Rows& from);
/// Units of an inner dimension of `width`, padded with zeros to the kernel's steps.
[[nodiscard]] std::int64_t units_of(const TileKernel& kernel, std::int64_t width);
/// Rows of the tile that begins where `remaining` rows are left, some of which may be padding.
[[nodiscard]] std::int64_t tile_height(const TileKernel& kernel, std::int64_t remaining);
/// The units that `pack_rows` writes for so many rows.
[[nodiscard]] std::int64_t packed_size(const TileKernel& kernel, std::int64_t rows,
                                       std::int64_t units);

/// A, tile after tile of tile_height: row r begins at unit r * units of a tile's first row.
/// bf16 and f32 as they are; u8 for these is centered (center_pixels); i8 has kByteOffset added
/// where tiles take u8.
void pack_rows(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
               Unit* to);

/// B, panel after panel of the kernel's columns: each row of `from` is a column of B. f32 becomes
/// bf16 where tiles take it; i8 stays.
void pack_columns(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
                  Unit* to);
/// The same of B as it is, f32 or bf16.
void pack_matrix(const TileKernel& kernel, const Rows& from, Unit* to);
/// The units that both write for so many columns.
[[nodiscard]] std::int64_t panels_size(const TileKernel& kernel, std::int64_t columns,
                                       std::int64_t units);

}  // namespace fovea::cpu
