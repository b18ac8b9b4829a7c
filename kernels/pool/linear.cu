// A linear layer for few rows, used by the pooling head: bf16 input, f32 accumulation, f32 or bf16
// output.
//
// Contract: columns and depth multiples of 8 (columns of 8 * FOVEA_COLUMN_TILES, within one group);
// any number of rows. Deterministic.
//
// There is one vector per image, so the weights are most of the traffic: they are loaded directly
// from memory into the fragments of mma.sync. A lane loads 16 bytes of a row, 8 neighbours along
// the depth; two products of depth 16 use them in an order of the depth that is the same for both
// operands:
//
//   depth of a block of 32:   lane % 4 = 0: 0..7   1: 8..15   2: 16..23   3: 24..31
//   product 0 takes elements 0..3 of each lane, product 1 elements 4..7
//
// The depth is summed in kParts parts: part i has the blocks i, i + kParts, ..., and the parts are
// added in order. With FOVEA_SPLIT_DEPTH a CTA has one tile, and each of its warps one part.
// Otherwise each warp has a tile, and computes one part after the other; four warps are arranged
// along the rows. So all variants compute bit-identical results for a row, whatever the number of
// rows.
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pool/pool_params.hpp"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::pool {
namespace {

constexpr int kRowTiles = FOVEA_ROW_TILES;        // tiles of 16 rows per warp
constexpr int kColumnTiles = FOVEA_COLUMN_TILES;  // tiles of 8 columns per warp
constexpr bool kSplitDepth = FOVEA_SPLIT_DEPTH;
constexpr int kWarpRows = kSplitDepth ? 1 : 4;
constexpr int kWarpColumns = kSplitDepth ? 1 : kWarps / kWarpRows;
constexpr int kDepthBlock = 32;
constexpr int kBlocksInFlight = kSplitDepth ? 4 : 2;
constexpr int kParts = kWarps;  // parts of the depth
constexpr int kTileRows = 16 * kRowTiles;
constexpr int kTileColumns = 8 * kColumnTiles;

static_assert(!kSplitDepth || (kRowTiles == 1 && kColumnTiles == 1));

using Sums = float[kRowTiles][kColumnTiles][4];

__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kSqrt2OverPi = 0.7978845608028654F;
  return 0.5F * x * (1.0F + tanhf(kSqrt2OverPi * (x + 0.044715F * x * x * x)));
}

__device__ __forceinline__ uint4 load_or_zero(const std::uint16_t* from, bool real) {
  return real ? __ldg(reinterpret_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
}

// The place of a warp's tile: its first row and column, and the address of its operand.
struct Place {
  int row;
  int column;
  const std::uint16_t* a;
};

/// Adds the products of one part of the depth. A warp whose part has no blocks does not wait for
/// earlier grids: other warps of the CTA do, and the results are stored after a barrier.
__device__ __forceinline__ void multiply(const LinearParams& params, const Place& place, int part,
                                         int lane, Sums& sums) {
  const int blocks = (params.depth + kDepthBlock - 1) / kDepthBlock;
  const int along = lane % 4 * 8;
  for (int block = part; block < blocks; block += kParts * kBlocksInFlight) {
    uint4 w[kBlocksInFlight][kColumnTiles];
#pragma unroll
    for (int b = 0; b < kBlocksInFlight; ++b) {
      const int k = (block + b * kParts) * kDepthBlock + along;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        const std::int64_t column = place.column + n * 8 + lane / 4;
        w[b][n] = load_or_zero(params.w + column * params.depth + k, k < params.depth);
      }
    }
    if (block == part) {  // the loads of weights, which are constants, need not wait
      pipe::wait_for_previous_grids();
    }
#pragma unroll
    for (int b = 0; b < kBlocksInFlight; ++b) {
      const int k = (block + b * kParts) * kDepthBlock + along;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const std::int64_t upper = place.row + m * 16 + lane / 4;
        const std::int64_t lower = upper + 8;
        const bool in_depth = k < params.depth;
        const uint4 x = in_depth && upper < params.rows
                            ? *reinterpret_cast<const uint4*>(place.a + upper * params.a_stride + k)
                            : uint4{0, 0, 0, 0};
        const uint4 y = in_depth && lower < params.rows
                            ? *reinterpret_cast<const uint4*>(place.a + lower * params.a_stride + k)
                            : uint4{0, 0, 0, 0};
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          ptx::mma_m16n8k16_bf16(sums[m][n], x.x, y.x, x.y, y.y, w[b][n].x, w[b][n].y);
          ptx::mma_m16n8k16_bf16(sums[m][n], x.z, y.z, x.w, y.w, w[b][n].z, w[b][n].w);
        }
      }
    }
  }
}

__device__ __forceinline__ void finish(const LinearParams& params, float sum, std::int64_t row,
                                       int column) {
  if (row >= params.rows) {
    return;
  }
  const std::int64_t element = row * params.columns + column;
  float y = sum + params.bias[column];
  if (params.activation == Activation::kGelu) {
    y = gelu_tanh(y);
  } else if (params.activation == Activation::kResidual) {
    y += params.residual[element];
  }
  if (params.output_f32 != nullptr) {
    params.output_f32[element] = y;
  }
  if (params.output_bf16 != nullptr) {
    params.output_bf16[element] = static_cast<std::uint16_t>(ptx::cvt_bf16x2(y, 0.0F));
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kSplitDepth ? 1 : 2)
    FOVEA_ENTRY(const __grid_constant__ LinearParams params) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int tile_row = kSplitDepth ? 0 : warp / kWarpColumns;
  const int tile_column = kSplitDepth ? 0 : warp % kWarpColumns;
  Place place;
  place.row = (static_cast<int>(blockIdx.y) * kWarpRows + tile_row) * kTileRows;
  place.column = (static_cast<int>(blockIdx.x) * kWarpColumns + tile_column) * kTileColumns;
  pipe::let_next_grid_start();

  if constexpr (kSplitDepth) {
    __shared__ float partial[kWarps][16][8];
    place.a = params.a + place.column / params.group_columns * params.group_stride;
    Sums sums = {};
    multiply(params, place, warp, lane, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      partial[warp][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[0][0][i];
    }
    __syncthreads();
    if (threadIdx.x < 16 * 8) {
      const int row = static_cast<int>(threadIdx.x) / 8;
      const int column = static_cast<int>(threadIdx.x) % 8;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        sum += partial[w][row][column];
      }
      finish(params, sum, place.row + row, place.column + column);
    }
  } else {
    if (place.column >= params.columns || place.row >= params.rows) {
      return;
    }
    place.a = params.a + place.column / params.group_columns * params.group_stride;
    Sums sums = {};
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      Sums part_sums = {};
      multiply(params, place, part, lane, part_sums);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[m][n][i] += part_sums[m][n][i];
          }
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          finish(params, sums[m][n][i], place.row + m * 16 + lane / 4 + i / 2 * 8,
                 place.column + n * 8 + lane % 4 * 2 + i % 2);
        }
      }
    }
  }
}

}  // namespace fovea::pool
