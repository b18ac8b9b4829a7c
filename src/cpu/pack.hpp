// Packs operands of products into the order in which tiles read them.
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

/// Added to each i8 of A for tiles whose instruction takes u8 as one operand.
inline constexpr int kByteOffset = 128;

/// Whether tiles can read A in place, without packing.
[[nodiscard]] bool is_direct(const TileKernel& kernel, const Rows& from);
/// Number of units for an inner dimension of `width`, rounded up to the kernel's step.
[[nodiscard]] std::int64_t unit_count(const TileKernel& kernel, std::int64_t width);
/// Height of the next tile when `remaining` rows are left; some of its rows may be padding.
[[nodiscard]] std::int64_t tile_height(const TileKernel& kernel, std::int64_t remaining);
/// The number of units that `pack_rows` writes.
[[nodiscard]] std::int64_t packed_size(const TileKernel& kernel, std::int64_t rows,
                                       std::int64_t units);

/// Packs A tile after tile, each of tile_height rows; the tile that begins at row r begins at unit
/// r * units. bf16 and f32 stay as they are; u8 is centred for these (center_pixels); i8 has
/// kByteOffset added where tiles take u8.
void pack_rows(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
               Unit* to);

/// Packs B panel after panel, each of the kernel's number of columns; each row of `from` is a
/// column of B. f32 becomes bf16 where tiles take that; i8 stays.
void pack_columns(const TileKernel& kernel, const Rows& from, AlignedBuffer<std::byte>& scratch,
                  Unit* to);
/// The same for B that is not transposed, in f32 or bf16.
void pack_matrix(const TileKernel& kernel, const Rows& from, Unit* to);
/// The number of units that pack_columns and pack_matrix write.
[[nodiscard]] std::int64_t panels_size(const TileKernel& kernel, std::int64_t columns,
                                       std::int64_t units);

}  // namespace fovea::cpu
