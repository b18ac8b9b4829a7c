// A row in the registers of a warp, with its mean and variance; shared by the norm kernels.
//
// Each row is read from memory once; its variance is computed around its mean in registers:
//
//   lane:   0 .. 31 | 0 .. 31 | ...          a chunk is 8 neighbours of a row: 16 bytes of bf16
//   chunk:  0       | 1       | ... FOVEA_CHUNKS - 1
#pragma once

#include <cstdint>

#include "kernels/norm/norm_params.hpp"
#include "kernels/ptx/math.cuh"

namespace fovea::norm {

constexpr int kChunks = FOVEA_CHUNKS;
constexpr bool kInputF32 = FOVEA_INPUT_F32;
constexpr int kWarp = 32;
constexpr int kChunk = 8;
constexpr unsigned kAllLanes = 0xffffffffU;

static_assert(kThreads % kWarp == 0);
static_assert(kChunks >= 1 && kChunks <= 8, "rows of more than 2048 do not fit the registers");

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

// Eight neighbours of a row as they are in memory; bf16 stays packed until it is used.
struct Chunk {
  uint4 words[kInputF32 ? 2 : 1];

  __device__ __forceinline__ float operator[](int i) const {
    const uint4& word = words[kInputF32 ? i / 4 : 0];
    const int part = kInputF32 ? i % 4 : i / 2;
    const std::uint32_t bits = part == 0   ? word.x
                               : part == 1 ? word.y
                               : part == 2 ? word.z
                                           : word.w;
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

// This lane's part of a row that a warp holds in registers.
using Row = float[kChunks][kChunk];

__device__ __forceinline__ bool holds(const Params& params, int chunk, int lane) {
  return (chunk * kWarp + lane) * kChunk < params.width;
}

// The same in the format of the memory, for rows that are being loaded: bf16 needs half of the
// registers.
struct PackedRow {
  Chunk chunks[kChunks];

  __device__ __forceinline__ PackedRow(const Params& params, std::int64_t index, int lane) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      chunks[c] = holds(params, c, lane)
                      ? load_chunk(params.input, index * params.width + (c * kWarp + lane) * kChunk)
                      : Chunk{};
    }
  }

  __device__ __forceinline__ void unpack(Row& row) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        row[c][i] = chunks[c][i];
      }
    }
  }
};

// Subtracts the mean from the row, and returns the mean; elements beyond the row stay zero.
__device__ __forceinline__ float centre(const Params& params, Row& row, int lane) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      sum += row[c][i];
    }
  }
  const float mean = warp_sum(sum) * params.inverse_width;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (holds(params, c, lane)) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        row[c][i] -= mean;
      }
    }
  }
  return mean;
}

// Returns the variance of a centred row plus eps.
__device__ __forceinline__ float variance(const Params& params, const Row& row) {
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      squares += row[c][i] * row[c][i];
    }
  }
  return warp_sum(squares) * params.inverse_width + params.eps;
}

}  // namespace fovea::norm
