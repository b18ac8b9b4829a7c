// What the GEMM kernels take, and how big their shared memory is; shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/tensor_map.hpp"
#include "kernels/tile/input.hpp"

namespace fovea::gemm {

inline constexpr int kBlockBytes = 128;  // of K that a stage holds: the width of the swizzle
inline constexpr int kGroupRows = 64;    // of A that one product takes
inline constexpr int kPingPongRows = 2 * kGroupRows;  // of a tile of that design
inline constexpr int kPingPongCluster = 2;            // blocks, one below the other
inline constexpr int kPairRows = 128;                 // of a CTA's part of a tile of that design
inline constexpr int kPairWarpRows = 32;              // of those, that a warp stores

/// How a kernel goes about a product.
enum class Design : std::uint8_t {
  kBStationary,  // a panel of B stays in shared memory: one-byte types, small K
  kCooperative,  // both operands pass through
  // So they do, and two warpgroups take tiles in turn; two blocks, one tile above the other, share
  // the tile of B.
  kPingPong,
  // Two CTAs multiply together, by tcgen05: a tile of both's rows, and half of B in each. Both
  // operands pass through, or a panel of A stays for the tiles beside each other.
  kPair,
};

/// Tuning parameters of a kernel; kernels/variants.py has those of all.
struct Tuning {
  Design design = Design::kCooperative;
  tile::Input input = tile::Input::kBF16;
  epilogue::Kind epilogue = epilogue::Kind::kBias;
  epilogue::Output output = epilogue::Output::kBF16;
  bool normed = false;  // the rows of A are to be normalised
  int consumers = 0;    // warpgroups that multiply; of kPair, that finish products
  int columns = 0;      // of a tile
  int stages = 0;       // of the ring
  int vector = 0;       // columns that a lane stores at once
  // Blocks of kBlockBytes of K that a panel (of kBStationary of B, of kPair of A) holds at most; 0:
  // there is none.
  int k_blocks = 0;
  int ahead = 4;  // groups of columns whose addends are fetched while the products run
  // Order of the tiles: 0, along the columns of one row of tiles after the other; else down so many
  // rows of tiles, column after column. Not where there are panels.
  int raster = 0;
};

/// B comes with its rows permuted (see kernels/epilogue/fragment.cuh): its map has dimensions
/// (k, 2, 4, vector / 2, groups).
/// B of the design kPair is as it is: (k, n, 1).
struct Params {
  TensorMap a;
  TensorMap b;
  /// What passes through shared memory on its way to the output. Of ping-pong a residual, a matrix
  /// of bf16, in boxes of (groups, rows, epilogue::kQuad * 8 columns), there and back; of the
  /// design kPair any output, in boxes of pair_span() bytes of a warp's rows.
  TensorMap staged;
  epilogue::Params epilogue;
  std::int32_t image_tiles = 0;   // along the images
  std::int32_t row_tiles = 0;     // image_tiles times those along the tokens
  std::int32_t column_tiles = 0;  // panels
  std::int32_t k_blocks = 0;      // K in steps of kBlockBytes
};

/// Parameters of kernels of MXFP8. The maps are (256, 2 * atoms along K, atoms along the rows), so
/// that what lies beyond the matrix is zero; the output's scales are those of a result in MXFP8.
struct BlockScaledParams : Params {
  TensorMap a_scales;
  TensorMap b_scales;
  std::uint8_t* output_scales = nullptr;
};
inline constexpr int kAtomBytes = 512;  // of scales: 128 rows, and four blocks of 32 along K
inline constexpr int kAtomRows = 128;
/// Columns of tensor memory for an atom, which is in each quarter of its lanes.
inline constexpr int kAtomColumns = 4;

/// What the kernels' storage takes, which they assert; `tables` of a float a column are the scale
/// and the bias for each warpgroup.
[[nodiscard]] constexpr std::size_t cooperative_shared_bytes(int rows, int columns, int stages,
                                                             int tables) {
  constexpr int kBarriers = 1024;
  return static_cast<std::size_t>(stages * (rows + columns) * kBlockBytes + tables * columns * 4 +
                                  kBarriers);
}
/// `staging`: a tile of the residual.
[[nodiscard]] constexpr std::size_t ping_pong_shared_bytes(int columns, int stages, bool staging) {
  return cooperative_shared_bytes(kPingPongRows, columns, stages, 4) +
         (staging ? static_cast<std::size_t>(kPingPongRows) * columns * 2 : 0);
}
[[nodiscard]] constexpr std::size_t b_stationary_shared_bytes(int columns, int k_blocks, int stages,
                                                              int tables) {
  return cooperative_shared_bytes(kGroupRows, 0, stages, 0) +
         static_cast<std::size_t>(columns * (k_blocks * kBlockBytes + tables * 4));
}

/// Bytes of a row that lie side by side where the design kPair has its output in shared memory: as
/// many as divide a warp's half of the columns.
[[nodiscard]] constexpr int pair_span(int columns, epilogue::Output output) {
  const int bytes = columns / 2 * (output == epilogue::Output::kBF16 ? 2 : 1);
  return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32;
}
/// Atoms that have the scales of a tile of B, which begins with an atom's first or 64th row.
[[nodiscard]] constexpr int pair_b_atoms(int columns) {
  return (columns + 64 + kAtomRows - 1) / kAtomRows;
}
/// Bytes of a CTA's rows of A, a block of K.
[[nodiscard]] constexpr int pair_a_bytes(tile::Input input) {
  return kPairRows * kBlockBytes + (input == tile::Input::kMXFP8 ? kAtomBytes : 0);
}
/// Bytes of its half of B's tile; of scales it has those of the whole tile.
[[nodiscard]] constexpr int pair_b_bytes(int columns, tile::Input input) {
  const int atoms = input == tile::Input::kMXFP8 ? pair_b_atoms(columns) : 0;
  return columns / 2 * kBlockBytes + atoms * kAtomBytes;
}
/// Blocks of K of A that a CTA of the design kPair has in shared memory: a panel's, or its stages'.
[[nodiscard]] constexpr int pair_a_blocks(const Tuning& tuning) {
  return tuning.k_blocks > 0 ? tuning.k_blocks : tuning.stages;
}
/// Columns of tensor memory: two sets of accumulators and the scales of blocks.
[[nodiscard]] constexpr int pair_tensor_columns(const Tuning& tuning) {
  const int atoms = pair_a_blocks(tuning) + tuning.stages * pair_b_atoms(tuning.columns);
  return 2 * tuning.columns + (tuning.input == tile::Input::kMXFP8 ? atoms * kAtomColumns : 0);
}
/// Eight warps finish products, one fills stages and one multiplies; another fills a panel.
[[nodiscard]] constexpr int pair_threads(const Tuning& tuning) {
  return 32 * (tuning.k_blocks > 0 ? 11 : 10);
}
[[nodiscard]] constexpr std::size_t pair_shared_bytes(const Tuning& tuning) {
  constexpr int kBarriers = 1024;
  constexpr int kTables = 4 * 2;  // of each half of the columns: four warps, each with two
  const int staged =
      kPairRows * tuning.columns * (tuning.output == epilogue::Output::kBF16 ? 2 : 1);
  return static_cast<std::size_t>(pair_a_blocks(tuning) * pair_a_bytes(tuning.input) +
                                  tuning.stages * pair_b_bytes(tuning.columns, tuning.input) +
                                  staged + kTables * tuning.columns * 4 + kBarriers);
}

}  // namespace fovea::gemm
