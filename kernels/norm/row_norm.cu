// Computes 1 / deviation and -mean / deviation of each row of a row-major bf16 matrix, with which a
// matrix kernel normalises its input.
//
// Contract: any number of rows; width a multiple of 8 and at most 256 * FOVEA_CHUNKS; input 16-byte
// aligned. Deterministic.
//
// The kernel is bound by reads: a row is loaded while the previous one is summed. The last rows
// come first: they are still in L2, because the previous kernel has just written them. The first
// rows are then in L2 for the matrix kernel, which begins with them.
#include <cstdint>

#include "kernels/epilogue/epilogue_params.hpp"
#include "kernels/norm/norm_params.hpp"
#include "kernels/norm/row.cuh"
#include "kernels/pipe/grid.cuh"

namespace fovea::norm {

// Number of blocks per SM, limited by registers: two rows take 36 or more per thread. Rows of five
// chunks take more on Blackwell.
#if __CUDA_ARCH__ >= 1000
constexpr int kBlocksOfFive = 5;
#else
constexpr int kBlocksOfFive = 6;
#endif
constexpr int kLeastBlocks = kChunks <= 3 ? 8 : kChunks <= 5 ? kBlocksOfFive : 4;

namespace {

/// Computes the norms of every `warps`-th row.
__device__ __forceinline__ void find_norms(const Params& params, std::int64_t warp,
                                           std::int64_t warps, int lane) {
  std::int64_t index = params.rows - 1 - warp;
  if (index < 0) {
    return;
  }
  auto* const norms = static_cast<epilogue::RowNorm*>(params.output);
  PackedRow next(params, index, lane);
  for (; index >= 0; index -= warps) {
    Row row;
    next.unpack(row);
    if (index >= warps) {
      next = PackedRow(params, index - warps, lane);
    }
    const float mean = centre(params, row, lane);
    const float scale = __frsqrt_rn(variance(params, row));
    if (lane == 0) {
      norms[index] = {scale, -mean * scale};
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kLeastBlocks)
    FOVEA_ENTRY(const __grid_constant__ Params params) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / kWarp);
  const std::int64_t warp =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  if (kChunks <= 3 && params.width == kChunks * kWarp * kChunk) {
    Params known = params;  // constant, so that the compiler knows that every lane has every chunk
    known.width = kChunks * kWarp * kChunk;
    find_norms(known, warp, warps, lane);
  } else {
    find_norms(params, warp, warps, lane);
  }
}

}  // namespace fovea::norm
