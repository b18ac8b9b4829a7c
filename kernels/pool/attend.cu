// The pooling head's attention: a fixed query a head, folded into keys, over an image's tokens.
//
//   score[h][n] = x[n] . key[h]     mean[h] = sum_n softmax_n(score[h])_n x[n]
//
// Contract: bf16 x (images, tokens, hidden), at most 16 heads, hidden a multiple of 16 and at most
// 128 * FOVEA_PAIRS. Any number of tokens. Deterministic.
//
// Each image (or split of one) is one block, which reads its tokens once, FOVEA_TOKENS at a time,
// and keeps a running maximum and sum as softmax over a stream needs:
//
//   x tile -> shared --> scores: warps split hidden, partial sums through shared
//                    --> softmax: two heads a warp, a token a lane; weights as bf16 to shared
//                    --> mean: warps split hidden; (16 heads, hidden) stay in registers
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pool/pool_params.hpp"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::pool {
namespace {

constexpr int kTokens = FOVEA_TOKENS;  // of a tile
constexpr int kPairs = FOVEA_PAIRS;    // a warp's share of hidden: 16 columns each
constexpr int kScoreStride = kMaxHeads + 1;
constexpr int kWeightStride = kTokens + kPad;
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr float kLog2E = 1.4426950408889634F;

static_assert(kTokens == 16 || kTokens == 32);
static_assert(kMaxHeads == 2 * kWarps, "softmax: two heads a warp");

struct SharedStorage {
  float scores[kWarps][kTokens][kScoreStride];
  alignas(16) std::uint16_t weights[kMaxHeads][kWeightStride];
  float rescale[kMaxHeads];
  float sum[kMaxHeads];
};

static_assert(sizeof(SharedStorage) == attend_fixed_bytes(kTokens));
static_assert(sizeof(SharedStorage) % 16 == 0, "the tile follows it");

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Tokens [first, end) of the image to the tile; rows beyond `end` become zeros.
__device__ __forceinline__ void load_tile(const AttendParams& params, const std::uint16_t* image,
                                          std::uint16_t* tile, int first, int end) {
  const int units = params.hidden / 8;  // of 16 bytes
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * units; i += kThreads) {
    const int row = i / units;
    const int unit = i % units;
    const bool real = first + row < end;
    const std::int64_t token = real ? first + row : first;
    ptx::cp_async_16(shared_address(tile + row * (params.hidden + kPad) + unit * 8),
                     image + token * params.hidden + unit * 8, real ? 16 : 0);
  }
  ptx::cp_async_wait_all();
}

// This warp's share of hidden, of every token's score for every head.
__device__ __forceinline__ void score(const AttendParams& params, const std::uint16_t* tile,
                                      SharedStorage& shared, int warp, int lane) {
  float sums[kTokens / 16][2][4] = {};
  for (int step = warp; step < params.hidden / 16; step += kWarps) {
    const uint4 key = __ldg(reinterpret_cast<const uint4*>(params.keys) + step * 32 + lane);
#pragma unroll
    for (int m = 0; m < kTokens / 16; ++m) {
      std::uint32_t x[4];
      const int row = m * 16 + lane % 16;
      ptx::ldmatrix_x4(
          x, shared_address(tile + row * (params.hidden + kPad) + step * 16 + lane / 16 * 8));
      ptx::mma_m16n8k16_bf16(sums[m][0], x[0], x[1], x[2], x[3], key.x, key.y);
      ptx::mma_m16n8k16_bf16(sums[m][1], x[0], x[1], x[2], x[3], key.z, key.w);
    }
  }
#pragma unroll
  for (int m = 0; m < kTokens / 16; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared.scores[warp][m * 16 + lane / 4 + i / 2 * 8][n * 8 + lane % 4 * 2 + i % 2] =
            sums[m][n][i];
      }
    }
  }
}

// A head's running maximum and sum, the same in all lanes that hold its tokens.
struct Running {
  float largest = -INFINITY;
  float sum = 0;
};

// The weights of `real` tokens of one head, relative to the largest score so far.
__device__ __forceinline__ void soften(SharedStorage& shared, Running& running, int head, int token,
                                       int real) {
  float value = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    value += shared.scores[warp][token][head];
  }
  value = token < real ? value : -INFINITY;
  float largest = fmaxf(running.largest, value);
#pragma unroll
  for (int step = kTokens / 2; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step, kTokens));
  }
  const float rescale = exp2f((running.largest - largest) * kLog2E);
  const std::uint32_t packed = ptx::cvt_bf16x2(exp2f((value - largest) * kLog2E), 0.0F);
  float sum = ptx::bf16_low(packed);  // of what the mean really uses
#pragma unroll
  for (int step = kTokens / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step, kTokens);
  }
  running.sum = running.sum * rescale + sum;
  running.largest = largest;
  shared.weights[head][token] = static_cast<std::uint16_t>(packed);
  if (token == 0) {
    shared.rescale[head] = rescale;
  }
}

// mean = mean * rescale + weights x, for this warp's columns.
__device__ __forceinline__ void accumulate(const AttendParams& params, const std::uint16_t* tile,
                                           const SharedStorage& shared, float (&mean)[kPairs][2][4],
                                           int warp, int lane) {
  const float upper = shared.rescale[lane / 4];
  const float lower = shared.rescale[lane / 4 + 8];
  std::uint32_t weights[kTokens / 16][4];
#pragma unroll
  for (int k = 0; k < kTokens / 16; ++k) {
    ptx::ldmatrix_x4(weights[k],
                     shared_address(&shared.weights[lane % 16][k * 16 + lane / 16 * 8]));
  }
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    const int column = (pair * kWarps + warp) * 16;
    if (column >= params.hidden) {
      break;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      mean[pair][n][0] *= upper;
      mean[pair][n][1] *= upper;
      mean[pair][n][2] *= lower;
      mean[pair][n][3] *= lower;
    }
#pragma unroll
    for (int k = 0; k < kTokens / 16; ++k) {
      std::uint32_t x[4];
      const int row = k * 16 + lane % 16;
      ptx::ldmatrix_x4_trans(
          x, shared_address(tile + row * (params.hidden + kPad) + column + lane / 16 * 8));
      const auto& w = weights[k];
      ptx::mma_m16n8k16_bf16(mean[pair][0], w[0], w[1], w[2], w[3], x[0], x[1]);
      ptx::mma_m16n8k16_bf16(mean[pair][1], w[0], w[1], w[2], w[3], x[2], x[3]);
    }
  }
}

__device__ __forceinline__ void store(const AttendParams& params, const SharedStorage& shared,
                                      const float (&mean)[kPairs][2][4], int warp, int lane) {
  const std::int64_t image = blockIdx.y;
  const std::int64_t split = image * params.splits + blockIdx.x;
#pragma unroll
  for (int pair = 0; pair < kPairs; ++pair) {
    const int column = (pair * kWarps + warp) * 16 + lane % 4 * 2;
    if (column >= params.hidden) {
      break;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = lane / 4 + half * 8;
      if (head >= params.heads) {
        continue;
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float a = mean[pair][n][half * 2];
        const float b = mean[pair][n][half * 2 + 1];
        if (params.splits == 1) {
          const float inverse = 1.0F / shared.sum[head];
          const std::int64_t at = (image * params.heads + head) * params.hidden + column + n * 8;
          *reinterpret_cast<std::uint32_t*>(params.mean + at) =
              ptx::cvt_bf16x2(a * inverse, b * inverse);
        } else {
          const std::int64_t at = (split * kMaxHeads + head) * params.hidden + column + n * 8;
          *reinterpret_cast<float2*>(params.partial + at) = {a, b};
        }
      }
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ AttendParams params) {
  extern __shared__ __align__(16) std::uint8_t memory[];
  auto& shared = *reinterpret_cast<SharedStorage*>(memory);
  auto* const tile = reinterpret_cast<std::uint16_t*>(memory + sizeof(SharedStorage));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int begin = static_cast<int>(blockIdx.x) * params.tokens_per_split;
  const int end = min(begin + params.tokens_per_split, params.tokens);
  const std::uint16_t* const image =
      params.x + static_cast<std::int64_t>(blockIdx.y) * params.tokens * params.hidden;

  constexpr int kHeadsAtOnce = 32 / kTokens;  // that a warp softens side by side
  Running running[2 / kHeadsAtOnce];
  float mean[kPairs][2][4] = {};
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (int first = begin; first < end; first += kTokens) {
    load_tile(params, image, tile, first, end);
    __syncthreads();
    score(params, tile, shared, warp, lane);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2 / kHeadsAtOnce; ++i) {
      soften(shared, running[i], warp * 2 + i + lane / kTokens, lane % kTokens, end - first);
    }
    __syncthreads();
    accumulate(params, tile, shared, mean, warp, lane);
    __syncthreads();
  }
  if (lane % kTokens == 0) {
#pragma unroll
    for (int i = 0; i < 2 / kHeadsAtOnce; ++i) {
      const int head = warp * 2 + i + lane / kTokens;
      shared.sum[head] = running[i].sum;
      if (params.splits > 1) {
        const std::int64_t split =
            static_cast<std::int64_t>(blockIdx.y) * params.splits + blockIdx.x;
        params.statistics[split * 2 * kMaxHeads + head] = running[i].largest;
        params.statistics[(split * 2 + 1) * kMaxHeads + head] = running[i].sum;
      }
    }
  }
  __syncthreads();
  store(params, shared, mean, warp, lane);
}

}  // namespace fovea::pool
