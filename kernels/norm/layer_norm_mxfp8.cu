// LayerNorm over the rows of a row-major bf16 matrix to MXFP8: e4m3, and a scale for each block of
// 32 neighbours, in the order that the tensor cores require.
//
// Contract: any number of rows; width a multiple of 8 and at most 256 * FOVEA_CHUNKS; operands
// 16-byte aligned. Every byte of the scales is written: scales of rows and blocks that do not exist
// become the smallest power of two. Deterministic.
//
// As in layer_norm.cu, a warp processes a row. Four lanes hold a block, and sixteen lanes the four
// blocks whose scales are stored as one word.
#include <cstdint>

#include "kernels/epilogue/block_scale.cuh"
#include "kernels/norm/affine.cuh"
#include "kernels/norm/norm_params.hpp"
#include "kernels/norm/row.cuh"
#include "kernels/pipe/grid.cuh"

namespace fovea::norm {
namespace {

constexpr int kLeastBlocks = 4;  // per SM, which allows 128 registers per thread
constexpr int kLanesOfBlock = epilogue::kScaleBlock / kChunk;
constexpr int kLanesOfGroup = kLanesOfBlock * epilogue::kScaleGroup;

__device__ __forceinline__ std::int32_t groups_of(const Params& params) {
  constexpr int kGroupWidth = epilogue::kScaleBlock * epilogue::kScaleGroup;
  return (params.width + kGroupWidth - 1) / kGroupWidth;
}

__device__ __forceinline__ void store_scales(const Params& params, std::int64_t row,
                                             std::int32_t group, std::uint32_t word) {
  auto* const scales = static_cast<std::uint8_t*>(params.block_scales);
  const std::int64_t place = epilogue::scale_place(row, group, groups_of(params));
  *reinterpret_cast<std::uint32_t*>(scales + place) = word;
}

/// Stores this lane's part `y` of one chunk of a row; `y` is zero beyond the row.
__device__ __forceinline__ void store_blocks(const Params& params, std::int64_t index, int chunk,
                                             int lane, const float (&y)[kChunk]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    largest = fmaxf(largest, fabsf(y[i]));
  }
#pragma unroll
  for (int step = 1; step < kLanesOfBlock; step *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
  }
  const std::uint32_t scale = epilogue::block_scale(largest);
  if (holds(params, chunk, lane)) {
    const float inverse = epilogue::inverse_of_scale(scale);
    *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(params.output) + index * params.width +
                              (chunk * kWarp + lane) * kChunk) = {
        epilogue::to_e4m3x4(y, inverse), epilogue::to_e4m3x4(y + 4, inverse)};
  }
  std::uint32_t word = scale | __shfl_down_sync(kAllLanes, scale, kLanesOfBlock) << 8;
  word |= __shfl_down_sync(kAllLanes, word, 2 * kLanesOfBlock) << 16;
  if (lane % kLanesOfGroup == 0 && holds(params, chunk, lane)) {
    store_scales(params, index, (chunk * kWarp + lane) / kLanesOfGroup, word);
  }
}

/// Normalises every `warps`-th row. The last rows come first: they are still in L2, because the
/// previous kernel has just written them.
__device__ __forceinline__ void normalise(const Params& params, const SharedStorage& shared,
                                          std::int64_t warp, std::int64_t warps, int lane) {
  for (std::int64_t index = params.rows - 1 - warp; index >= 0; index -= warps) {
    Row row;
    (void)load_normalised(params, shared, index, lane, row);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      store_blocks(params, index, c, lane, row[c]);
    }
  }
}

/// Stores the scales of the rows of the last atoms that are beyond the matrix.
__device__ __forceinline__ void fill_atoms(const Params& params, std::int64_t warp,
                                           std::int64_t warps, int lane) {
  const std::int64_t end =
      (params.rows + epilogue::kScaleRows - 1) / epilogue::kScaleRows * epilogue::kScaleRows;
  for (std::int64_t index = params.rows + warp; index < end; index += warps) {
    for (std::int32_t group = lane; group < groups_of(params); group += kWarp) {
      store_scales(params, index, group, 0);
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kLeastBlocks)
    FOVEA_ENTRY(const __grid_constant__ Params params) {
  __shared__ SharedStorage shared;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / kWarp);
  const std::int64_t warp =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  pipe::let_next_grid_start();
  load_parameters(params, shared);
  __syncthreads();
  pipe::wait_for_previous_grids();
  normalise(params, shared, warp, warps, lane);
  fill_atoms(params, warp, warps, lane);
}

}  // namespace fovea::norm
