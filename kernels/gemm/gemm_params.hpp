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

/// How a kernel goes about a product.
enum class Design : std::uint8_t {
  kBStationary,  // a panel of B stays in shared memory: one-byte types, small K
  kCooperative,  // both operands pass through
  // So they do, and two warpgroups take tiles in turn; two blocks, one tile above the other, share
  // the tile of B.
  kPingPong,
};

/// Tuning parameters of a kernel; kernels/variants.py has those of all.
struct Tuning {
  Design design = Design::kCooperative;
  tile::Input input = tile::Input::kBF16;
  epilogue::Kind epilogue = epilogue::Kind::kBias;
  epilogue::Output output = epilogue::Output::kBF16;
  bool normed = false;  // the rows of A are to be normalised
  int consumers = 0;    // warpgroups that multiply
  int columns = 0;      // of a tile
  int stages = 0;       // of the ring
  int vector = 0;       // columns that a lane stores at once
  int k_blocks = 0;     // of kBlockBytes of K that a stationary panel holds at most
  int ahead = 4;        // groups of columns whose addends are fetched while the products run
  // Order of the tiles: 0, along the columns of one row of tiles after the other; else down so many
  // rows of tiles, column after column. Not of stationary panels.
  int raster = 0;
};

/// B comes with its rows permuted (see kernels/epilogue/fragment.cuh): its map has dimensions
/// (k, 2, 4, vector / 2, groups).
/// A residual is a matrix of bf16 that the alternating design loads and stores as boxes of
/// (groups, rows, epilogue::kQuad * 8 columns).
struct Params {
  TensorMap a;
  TensorMap b;
  TensorMap residual;
  epilogue::Params epilogue;
  std::int32_t image_tiles = 0;   // along the images
  std::int32_t row_tiles = 0;     // image_tiles times those along the tokens
  std::int32_t column_tiles = 0;  // panels
  std::int32_t k_blocks = 0;      // K in steps of kBlockBytes
};

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

}  // namespace fovea::gemm
