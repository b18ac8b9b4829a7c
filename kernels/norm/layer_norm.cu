// LayerNorm over the rows of a row-major matrix: bf16 or f32 in; bf16, f32, e4m3 or i8 out.
//
// Contract: any number of rows; width a multiple of 8 and at most 256 * FOVEA_CHUNKS; operands
// 16-byte aligned; the output may be the input when the types are the same. Deterministic.
//
// A warp holds whole rows in registers, so that each is read once and its variance is taken around
// its mean without a second pass over memory:
//
//   lane:   0 .. 31 | 0 .. 31 | ...          a chunk is 8 neighbours of a row: 16 bytes of bf16
//   chunk:  0       | 1       | ... FOVEA_CHUNKS - 1
//
// FOVEA_ROWS rows are in flight at once: bytes on their way are what the memory's latency needs.
// They share what is read of weight and bias, which lie in shared memory in the order of the lanes
// (f32, they are four times a row of bf16: through the L1 they would cost more than the rows).
// Being constants, they are fetched before the grids ahead have ended.
#include <cstdint>

#include "kernels/norm/params.hpp"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/math.cuh"

namespace fovea::norm {
namespace {

constexpr int kChunks = FOVEA_CHUNKS;
constexpr int kRows = FOVEA_ROWS;
constexpr bool kInputF32 = FOVEA_INPUT_F32;
constexpr int kWarp = 32;
constexpr int kChunk = 8;
#if __CUDA_ARCH__ < 900
// Leaves 128 registers: without a word about it the compiler stops at 72 there, and spills.
constexpr int kBlocksPerSm = 4;
#else
constexpr int kBlocksPerSm = 0;  // unsaid
#endif
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr float kE4M3Max = 448.0F;
constexpr float kI8Max = 127.0F;

static_assert(kThreads % kWarp == 0);
static_assert(kChunks >= 1 && kChunks <= 8, "rows of more than 2048 do not fit the registers");

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// Eight neighbours of a row as they lie in memory; bf16 stays packed until it is used.
struct Chunk {
  uint4 words[kInputF32 ? 2 : 1];

  __device__ __forceinline__ float operator[](int i) const {
    const uint4& word = words[kInputF32 ? i / 4 : 0];
    const int at = kInputF32 ? i % 4 : i / 2;
    const std::uint32_t bits = at == 0 ? word.x : at == 1 ? word.y : at == 2 ? word.z : word.w;
    if constexpr (kInputF32) {
      return __uint_as_float(bits);
    } else {
      return i % 2 == 0 ? ptx::bf16_low(bits) : ptx::bf16_high(bits);
    }
  }
};

__device__ __forceinline__ Chunk load_chunk(const void* input, std::int64_t element) {
  Chunk chunk;
  if constexpr (kInputF32) {
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const float*>(input) + element);
    chunk.words[0] = from[0];
    chunk.words[1] = from[1];
  } else {
    chunk.words[0] =
        *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(input) + element);
  }
  return chunk;
}

__device__ __forceinline__ uint2 to_e4m3(const float (&y)[kChunk]) {
#if __CUDA_ARCH__ >= 890
  const auto pair = [&](int i) -> std::uint32_t { return ptx::cvt_e4m3x2(y[i], y[i + 1]); };
  return {pair(0) | pair(2) << 16, pair(4) | pair(6) << 16};
#else
  __trap();  // the launcher refuses e4m3 where it has no instructions
#endif
}

// Rounded to nearest even by adding 1.5 * 2^23, which leaves the integer in the low bits.
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

__device__ __forceinline__ bool has_row_scale(const Params& params) {
  return params.output_type == Output::kE4M3RowScale || params.output_type == Output::kI8RowScale;
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
    case Output::kI8RowScale:
      *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(params.output) + element) = to_i8(y);
      return;
    default:
      *reinterpret_cast<uint2*>(static_cast<std::uint8_t*>(params.output) + element) = to_e4m3(y);
  }
}

struct Statistics {
  float mean;
  float inverse_deviation;
};

__device__ __forceinline__ Statistics statistics(const Params& params, const Chunk (&row)[kChunks],
                                                 int lane) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      sum += row[c][i];  // what is beyond the row was loaded as zero
    }
  }
  const float mean = warp_sum(sum) * params.inverse_width;
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if ((c * kWarp + lane) * kChunk < params.width) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        const float centred = row[c][i] - mean;
        squares += centred * centred;
      }
    }
  }
  return {mean, rsqrtf(warp_sum(squares) * params.inverse_width + params.eps)};
}

// A chunk's halves of weight and bias lie a warp's width apart, so that lanes read side by side.
struct SharedStorage {
  float4 weight[kChunks][2][kWarp];
  float4 bias[kChunks][2][kWarp];
};

__device__ __forceinline__ void load_parameters(const Params& params, SharedStorage& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < params.width / 4; i += kThreads) {
    const int chunk = i / 2 / kWarp;
    shared.weight[chunk][i % 2][i / 2 % kWarp] =
        __ldg(reinterpret_cast<const float4*>(params.weight) + i);
    shared.bias[chunk][i % 2][i / 2 % kWarp] =
        __ldg(reinterpret_cast<const float4*>(params.bias) + i);
  }
}

// One chunk's weights and biases, in registers.
struct Affine {
  float weight[kChunk];
  float bias[kChunk];

  __device__ __forceinline__ Affine(const SharedStorage& shared, int chunk, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 w = shared.weight[chunk][half][lane];
      const float4 b = shared.bias[chunk][half][lane];
      const float ws[4] = {w.x, w.y, w.z, w.w};
      const float bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weight[half * 4 + i] = ws[i];
        bias[half * 4 + i] = bs[i];
      }
    }
  }
};

__device__ __forceinline__ void normalise(const Chunk& chunk, const Statistics& of,
                                          const Affine& affine, float (&y)[kChunk]) {
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    y[i] = (chunk[i] - of.mean) * of.inverse_deviation * affine.weight[i] + affine.bias[i];
  }
}

// max |row| over the type's largest number, and 1 for a row of zeros.
__device__ __forceinline__ void row_scales(const Params& params, const SharedStorage& shared,
                                           const Chunk (&rows)[kRows][kChunks],
                                           const Statistics (&of)[kRows], int lane,
                                           float (&scale)[kRows]) {
  float largest[kRows] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if ((c * kWarp + lane) * kChunk < params.width) {
      const Affine affine(shared, c, lane);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float y[kChunk];
        normalise(rows[r][c], of[r], affine, y);
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
          largest[r] = fmaxf(largest[r], fabsf(y[i]));
        }
      }
    }
  }
  const float most = params.output_type == Output::kI8RowScale ? kI8Max : kE4M3Max;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float peak = warp_max(largest[r]);
    scale[r] = peak > 0 ? peak / most : 1.0F;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
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

  // A warp's rows lie `warps` apart, so that a grid with a warp for every row uses all of them.
  for (std::int64_t first = warp; first < params.rows; first += warps * kRows) {
    Chunk rows[kRows][kChunks];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * warps;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const int column = (c * kWarp + lane) * kChunk;
        rows[r][c] = row < params.rows && column < params.width
                         ? load_chunk(params.input, row * params.width + column)
                         : Chunk{};
      }
    }
    Statistics of[kRows];
    float scale[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      of[r] = statistics(params, rows[r], lane);
      scale[r] = 1.0F;
    }
    if (has_row_scale(params)) {
      row_scales(params, shared, rows, of, lane, scale);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = (c * kWarp + lane) * kChunk;
      if (column < params.width) {
        const Affine affine(shared, c, lane);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const std::int64_t row = first + r * warps;
          float y[kChunk];
          normalise(rows[r][c], of[r], affine, y);
          if (has_row_scale(params)) {
            const float inverse = 1.0F / scale[r];
#pragma unroll
            for (float& value : y) {
              value *= inverse;
            }
          }
          if (row < params.rows) {
            store_chunk(params, row * params.width + column, y);
          }
        }
      }
    }
    if (has_row_scale(params) && lane == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t row = first + r * warps;
        if (row < params.rows) {
          params.row_scale[row] = scale[r];
        }
      }
    }
  }
}

}  // namespace fovea::norm
