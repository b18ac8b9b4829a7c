// Parameters of the GEMM kernels and sizes of their shared memory; shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/tensor_map.hpp"
#include "kernels/tile/input.hpp"

namespace fovea::gemm {

inline constexpr int kBlockBytes = 128;  // bytes along K per stage: the width of the swizzle
inline constexpr int kGroupRows = 64;    // rows of A in one matrix product
inline constexpr int kPingPongRows = 2 * kGroupRows;  // rows of a tile of kPingPong
inline constexpr int kPingPongCluster = 2;  // blocks of a cluster of kPingPong, one below the other
inline constexpr int kPairRows = 128;       // rows of a CTA's part of a tile of kPair
inline constexpr int kPairWarpRows = 32;    // rows of them that a warp stores

/// The design of a GEMM kernel.
enum class Design : std::uint8_t {
  kBStationary,  // a panel of B stays in shared memory; for one-byte types and small K
  kCooperative,  // both operands are streamed through shared memory
  // Both operands are streamed. Two warpgroups alternate between tiles, and two blocks, with one
  // tile above the other, share the tile of B.
  kPingPong,
  // Two CTAs multiply a tile together by tcgen05: each has half of the rows of A and half of B.
  // Both operands are streamed, or a panel of A stays in shared memory for adjacent tiles.
  kPair,
};

/// Tuning parameters of a kernel. kernels/variants.py lists those of all kernels.
struct Tuning {
  Design design = Design::kCooperative;
  tile::Input input = tile::Input::kBF16;
  epilogue::Kind epilogue = epilogue::Kind::kBias;
  epilogue::Output output = epilogue::Output::kBF16;
  bool normed = false;  // the kernel normalises the rows of A
  int consumers = 0;    // warpgroups that multiply; for kPair, those that run the epilogue
  int columns = 0;      // width of a tile
  int stages = 0;       // stages of the ring
  int vector = 0;       // columns that a lane stores at once
  // Maximum number of blocks of kBlockBytes along K in a panel, which is of B for kBStationary and
  // of A for kPair; 0: no panel.
  int k_blocks = 0;
  int ahead = 4;  // groups of columns whose addends are prefetched during the products
  // Order of the tiles. 0: row by row; else in bands of this many rows of tiles, column by column
  // within a band. Not for kernels with panels.
  int raster = 0;
};

/// The rows of B are loaded in a permuted order (see kernels/epilogue/fragment.cuh), so its map has
/// the dimensions (k, 2, 4, vector / 2, groups). For kPair they are not permuted: (k, n, 1).
struct Params {
  TensorMap a;
  TensorMap b;
  /// The map of the matrix that is staged in shared memory. For kPingPong: a bf16 residual, which
  /// is loaded and stored in boxes of (groups, rows, epilogue::kQuad * 8 columns). For kPair: any
  /// output, in boxes of pair_span() bytes by the rows of a warp.
  TensorMap staged;
  epilogue::Params epilogue;
  std::int32_t image_tiles = 0;   // number of tiles along the images
  std::int32_t row_tiles = 0;     // image_tiles times the number of tiles along the tokens
  std::int32_t column_tiles = 0;  // number of tiles along the columns
  std::int32_t k_blocks = 0;      // blocks of kBlockBytes along K
};

/// Parameters of kernels for MXFP8. The maps of scales are (256, 2 * atoms along K, atoms along the
/// rows), so that scales beyond the matrix are read as zero. `output_scales` are the scales of an
/// MXFP8 output.
struct BlockScaledParams : Params {
  TensorMap a_scales;
  TensorMap b_scales;
  std::uint8_t* output_scales = nullptr;
};
/// An atom of scales has 128 rows and four blocks of 32 along K.
inline constexpr int kAtomBytes = 512;
inline constexpr int kAtomRows = 128;
/// Columns of tensor memory for an atom, which is replicated in each quarter of the lanes.
inline constexpr int kAtomColumns = 4;

/// Bytes of shared memory; the kernels assert that their storage fits. `tables`: number of tables
/// with one float per column, which are the scales and the biases of each warpgroup.
[[nodiscard]] constexpr std::size_t cooperative_shared_bytes(int rows, int columns, int stages,
                                                             int tables) {
  constexpr int kBarriers = 1024;
  return static_cast<std::size_t>(stages * (rows + columns) * kBlockBytes + tables * columns * 4 +
                                  kBarriers);
}
/// `staging`: whether a tile of the residual is staged.
[[nodiscard]] constexpr std::size_t ping_pong_shared_bytes(int columns, int stages, bool staging) {
  return cooperative_shared_bytes(kPingPongRows, columns, stages, 4) +
         (staging ? static_cast<std::size_t>(kPingPongRows) * columns * 2 : 0);
}
[[nodiscard]] constexpr std::size_t b_stationary_shared_bytes(int columns, int k_blocks, int stages,
                                                              int tables) {
  return cooperative_shared_bytes(kGroupRows, 0, stages, 0) +
         static_cast<std::size_t>(columns * (k_blocks * kBlockBytes + tables * 4));
}

/// Adjacent bytes of a row in the shared memory for kPair's output: the widest swizzle that divides
/// a warp's half of the columns.
[[nodiscard]] constexpr int pair_span(int columns, epilogue::Output output) {
  const int bytes = columns / 2 * (output == epilogue::Output::kBF16 ? 2 : 1);
  return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : 32;
}
/// Number of atoms with the scales of a tile of B, which begins with the first or the 64th row of
/// an atom.
[[nodiscard]] constexpr int pair_b_atoms(int columns) {
  return (columns + 64 + kAtomRows - 1) / kAtomRows;
}
/// Bytes of a CTA's rows of A in one block of K, with their scales.
[[nodiscard]] constexpr int pair_a_bytes(tile::Input input) {
  return kPairRows * kBlockBytes + (input == tile::Input::kMXFP8 ? kAtomBytes : 0);
}
/// Bytes of a CTA's half of B's tile, with the scales of the whole tile.
[[nodiscard]] constexpr int pair_b_bytes(int columns, tile::Input input) {
  const int atoms = input == tile::Input::kMXFP8 ? pair_b_atoms(columns) : 0;
  return columns / 2 * kBlockBytes + atoms * kAtomBytes;
}
/// Number of blocks of A along K in the shared memory of a CTA of kPair: those of the panel or of
/// the stages.
[[nodiscard]] constexpr int pair_a_blocks(const Tuning& tuning) {
  return tuning.k_blocks > 0 ? tuning.k_blocks : tuning.stages;
}
/// Columns of tensor memory: two sets of accumulators, and the block scales.
[[nodiscard]] constexpr int pair_tensor_columns(const Tuning& tuning) {
  const int atoms = pair_a_blocks(tuning) + tuning.stages * pair_b_atoms(tuning.columns);
  return 2 * tuning.columns + (tuning.input == tile::Input::kMXFP8 ? atoms * kAtomColumns : 0);
}
/// Threads of a CTA: eight warps run the epilogue, one fills the stages, one multiplies, and with a
/// panel another one fills it.
[[nodiscard]] constexpr int pair_threads(const Tuning& tuning) {
  return 32 * (tuning.k_blocks > 0 ? 11 : 10);
}
[[nodiscard]] constexpr std::size_t pair_shared_bytes(const Tuning& tuning) {
  constexpr int kBarriers = 1024;
  constexpr int kTables = 4 * 2;  // for each half of the columns, two tables in each of four warps
  const int staged =
      kPairRows * tuning.columns * (tuning.output == epilogue::Output::kBF16 ? 2 : 1);
  return static_cast<std::size_t>(pair_a_blocks(tuning) * pair_a_bytes(tuning.input) +
                                  tuning.stages * pair_b_bytes(tuning.columns, tuning.input) +
                                  staged + kTables * tuning.columns * 4 + kBarriers);
}

}  // namespace fovea::gemm
