// LayerNorm over the rows of a row-major matrix: from bf16 or f32 to bf16, f32 or i8.
//
// Contract: any number of rows; width a multiple of 8 and at most 256 * FOVEA_CHUNKS; operands
// 16-byte aligned; the output may be the input when the types are the same. Deterministic.
//
// Each warp processes one row at a time, and many warps keep the memory busy. Weight and bias are
// f32, four times as large as a row of bf16, so they are kept in shared memory in the order of the
// lanes: reading them through the L1 cache would cost more than reading the rows. They are
// constants, so they are loaded before earlier grids have ended.
#include <cstdint>

#include "kernels/norm/affine.cuh"
#include "kernels/norm/norm_params.hpp"
#include "kernels/norm/row.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::norm {
namespace {

#if __CUDA_ARCH__ == 900  // also for machine code compiled from this PTX
// Number of blocks per SM, as launched by src/gpu/launch/norm.cpp. Rows of whole chunks have a
// separate code path where the registers suffice for both.
constexpr int kLeastBlocks = kChunks <= 3 ? 7 : kChunks <= 5 ? 5 : 4;
constexpr bool kWholeRows = kChunks <= 5 && !kInputF32;
#else
constexpr int kLeastBlocks = 4;  // per SM, which allows 128 registers per thread
constexpr bool kWholeRows = false;
#endif
constexpr float kI8Max = 127.0F;

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// Rounds to nearest even by adding 1.5 * 2^23, which leaves the integer in the low bits.
__device__ __forceinline__ uint2 to_i8(const float (&y)[kChunk]) {
  constexpr float kRound = 12582912.0F;
  const auto quad = [&](int i) -> std::uint32_t {
    const std::uint32_t low =
        __byte_perm(__float_as_uint(y[i] + kRound), __float_as_uint(y[i + 1] + kRound), 0x0040);
    const std::uint32_t high =
        __byte_perm(__float_as_uint(y[i + 2] + kRound), __float_as_uint(y[i + 3] + kRound), 0x0040);
    return __byte_perm(low, high, 0x5410);
  };
  return {quad(0), quad(4)};
}

__device__ __forceinline__ void store_chunk(const Params& params, std::int64_t element,
                                            const float (&y)[kChunk]) {
  switch (params.output_type) {
    case Output::kBF16: {
      const uint4 packed{ptx::cvt_bf16x2(y[0], y[1]), ptx::cvt_bf16x2(y[2], y[3]),
                         ptx::cvt_bf16x2(y[4], y[5]), ptx::cvt_bf16x2(y[6], y[7])};
      *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(params.output) + element) = packed;
      return;
    }
    case Output::kF32: {
      auto* const to = reinterpret_cast<float4*>(static_cast<float*>(params.output) + element);
      to[0] = {y[0], y[1], y[2], y[3]};
      to[1] = {y[4], y[5], y[6], y[7]};
      return;
    }
    case Output::kI8:
      *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(params.output) + element) = to_i8(y);
      return;
  }
}

// Returns max |row| / 127, or 1 for a row of zeros.
__device__ __forceinline__ float scale_of(const Row& row) {
  float largest = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      largest = fmaxf(largest, fabsf(row[c][i]));
    }
  }
  const float peak = warp_max(largest);
  return peak > 0 ? peak / kI8Max : 1.0F;
}

/// Normalises every `warps`-th row. The last rows come first: they are still in L2, because the
/// previous kernel has just written them.
__device__ __forceinline__ void normalise(const Params& params, const SharedStorage& shared,
                                          std::int64_t warp, std::int64_t warps, int lane) {
  for (std::int64_t index = params.rows - 1 - warp; index >= 0; index -= warps) {
    Row row;
    const float factor = load_normalised(params, shared, index, lane, row);
    if (params.output_type == Output::kI8) {
      const float scale = scale_of(row);
      const float inverse = 1.0F / scale;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          row[c][i] *= inverse;
        }
      }
      if (lane == 0) {
        // fmaxf and the conversion to integers lose NaN, so the scale carries the row's NaN to
        // later kernels.
        params.row_scale[index] = scale + 0.0F * factor;
      }
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (holds(params, c, lane)) {
        store_chunk(params, index * params.width + (c * kWarp + lane) * kChunk, row[c]);
      }
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

  if (kWholeRows && params.width == kChunks * kWarp * kChunk && params.output_type == Output::kI8) {
    Params known = params;  // constants, so that the compiler knows that every lane has every chunk
    known.width = kChunks * kWarp * kChunk;
    known.output_type = Output::kI8;
    normalise(known, shared, warp, warps, lane);
  } else {
    normalise(params, shared, warp, warps, lane);
  }
}

}  // namespace fovea::norm
