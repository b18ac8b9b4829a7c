// The scores of the pooling head: the products of every normalised token with the key of every
// head.
//
//   score[n][h] = norm(x[n]) . key[h] = scale[n] (x[n] . key[h] - mean[n] key_sum[h])
//
// The keys include the norm's weight; its bias would add the same to all tokens of a head, which
// cancels in the softmax.
//
// Contract: bf16 x (rows, hidden), keys (kMaxHeads, hidden), hidden a multiple of 8 and at most
// 256 * FOVEA_BLOCKS; any number of rows. Deterministic, and a row's results do not depend on the
// others.
//
// A CTA has 16 rows, and its warps split the columns into blocks of 32: warp w has the blocks w, w
// + 8, ... All of them are loaded at once, directly into the fragments of mma.sync, in an order of
// columns that is the same for both operands (see linear.cu).
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pool/pool_params.hpp"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::pool {
namespace {

constexpr int kBlocks = FOVEA_BLOCKS;  // blocks of 32 columns per warp
constexpr int kBlock = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

static_assert(kThreads == kScoreRows * kMaxHeads, "at last a thread has a row and a head");

struct SharedStorage {
  float scores[kWarps][kScoreRows][kMaxHeads + 1];
  float sums[kWarps][kScoreRows];
  float squares[kWarps][kScoreRows];
};

/// Loads eight neighbours in bf16, or zeros if they do not exist.
__device__ __forceinline__ uint4 load(const std::uint16_t* from, bool real) {
  return real ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}

template <typename Use>
__device__ __forceinline__ void each(const uint4& eight, Use use) {
  for (const std::uint32_t two : {eight.x, eight.y, eight.z, eight.w}) {
    use(ptx::bf16_low(two));
    use(ptx::bf16_high(two));
  }
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

/// Returns the sum of the warps' parts of a row, added in order.
__device__ __forceinline__ float sum_of_warps(const float (&parts)[kWarps][kScoreRows], int row) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    sum += parts[warp][row];
  }
  return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    FOVEA_ENTRY(const __grid_constant__ ScoreParams params) {
  __shared__ SharedStorage shared;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kScoreRows;
  const int along = lane % 4 * 8;  // this lane's first column within a block
  pipe::let_next_grid_start();

  const auto column_of = [&](int b) { return (b * kWarps + warp) * kBlock + along; };
  uint4 keys[kBlocks][2];  // for the heads lane / 4 and lane / 4 + 8
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::uint16_t* const from = params.keys + (n * 8 + lane / 4) * params.hidden;
      keys[b][n] = load(from + column_of(b), column_of(b) < params.hidden);
    }
  }
  pipe::wait_for_previous_grids();

  uint4 x[kBlocks][2];  // for the rows lane / 4 and lane / 4 + 8
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = first + lane / 4 + half * 8;
      x[b][half] = load(params.x + row * params.hidden + column_of(b),
                        column_of(b) < params.hidden && row < params.rows);
    }
  }
  float products[2][4] = {};
  float sums[2] = {};
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const uint4& upper = x[b][0];
    const uint4& lower = x[b][1];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const uint4& key = keys[b][n];
      ptx::mma_m16n8k16_bf16(products[n], upper.x, lower.x, upper.y, lower.y, key.x, key.y);
      ptx::mma_m16n8k16_bf16(products[n], upper.z, lower.z, upper.w, lower.w, key.z, key.w);
    }
    each(upper, [&](float value) { sums[0] += value; });
    each(lower, [&](float value) { sums[1] += value; });
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    const float sum = quad_sum(sums[half]);
    if (lane % 4 == 0) {
      shared.sums[warp][row] = sum;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      shared.scores[warp][row][i / 2 * 8 + lane % 4 * 2 + i % 2] =
          products[i / 2][half * 2 + i % 2];
    }
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    const float mean = sum_of_warps(shared.sums, row) * params.inverse_hidden;
    float squares = 0;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (column_of(b) < params.hidden) {
        each(x[b][half], [&](float value) { squares += (value - mean) * (value - mean); });
      }
    }
    squares = quad_sum(squares);
    if (lane % 4 == 0) {
      shared.squares[warp][row] = squares;
    }
  }
  __syncthreads();

  const int row = static_cast<int>(threadIdx.x) / kMaxHeads;
  const int head = static_cast<int>(threadIdx.x) % kMaxHeads;
  if (first + row >= params.rows) {
    return;
  }
  float product = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    product += shared.scores[w][row][head];
  }
  const float centre = sum_of_warps(shared.sums, row) * params.inverse_hidden;
  const float scale =
      rsqrtf(sum_of_warps(shared.squares, row) * params.inverse_hidden + params.eps);
  params.scores[(first + row) * kMaxHeads + head] =
      scale * (product - centre * __ldg(params.key_sums + head));
  if (head == 0) {
    params.norms[first + row] = {scale, centre};
  }
}

}  // namespace fovea::pool
