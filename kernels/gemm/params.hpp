// What the GEMM kernels take, and how big their shared memory is; shared by host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/epilogue/params.hpp"

namespace fovea::gemm {

/// The hardware's tensor map, as the driver encoded it.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

inline constexpr int kBlockBytes = 128;  // of K that a stage holds: the width of the swizzle
inline constexpr int kGroupRows = 64;    // of A that one product takes
inline constexpr int kAlternatingRows = 2 * kGroupRows;  // of a tile of that design
inline constexpr int kAlternatingCluster = 2;            // blocks, one below the other

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
[[nodiscard]] constexpr std::size_t streamed_shared_bytes(int rows, int columns, int stages,
                                                          int tables) {
  constexpr int kBarriers = 1024;
  return static_cast<std::size_t>(stages * (rows + columns) * kBlockBytes + tables * columns * 4 +
                                  kBarriers);
}
/// `staging`: a tile of the residual.
[[nodiscard]] constexpr std::size_t alternating_shared_bytes(int columns, int stages,
                                                             bool staging) {
  return streamed_shared_bytes(kAlternatingRows, columns, stages, 4) +
         (staging ? static_cast<std::size_t>(kAlternatingRows) * columns * 2 : 0);
}
[[nodiscard]] constexpr std::size_t resident_shared_bytes(int columns, int k_blocks, int stages,
                                                          int tables) {
  return streamed_shared_bytes(kGroupRows, 0, stages, 0) +
         static_cast<std::size_t>(columns * (k_blocks * kBlockBytes + tables * 4));
}

}  // namespace fovea::gemm
