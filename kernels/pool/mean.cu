// The means of the pooling head: for every head, the mean of an image's normalised tokens, weighted
// by the softmax of their scores.
//
//   mean[h] = sum_n softmax_n(score[h])_n norm(x[n]),  norm(x) = scale (x - mean(x))
//
// Contract: bf16 x (images, tokens, hidden), at most kMaxHeads heads, hidden a multiple of 16. The
// number of tokens is limited by shared memory (mean_shared_bytes()); images may have different
// numbers, and are stored one after the other. Deterministic, and an image's results do not depend
// on the others.
//
// A CTA has one image and kMeanColumns columns, 16 for each warp. It computes the softmax of all
// tokens first, so that no rescaling is needed:
//
//   scores --> largest --> a = bf16(exp(score - largest) scale[n]) in shared memory
//   x, kMeanTokens at a time --> ring of kMeanStages tiles --> sums (heads, 16) = a x, in registers
//
// The rounded weights `a` are what the sums use, so the result is normalised by their sum, sum_n a
// / scale[n], and the tokens' means, sum_n a mean(x[n]), are subtracted.
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/pool/pool_params.hpp"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma.cuh"

namespace fovea::pool {
namespace {

constexpr int kTileStride = kMeanColumns + kPad;
constexpr int kParts = kMeanThreads / kMaxHeads;  // threads that share a head's softmax
constexpr int kBatch = 8;                         // tokens per part that are loaded together
constexpr float kLog2E = 1.4426950408889634F;

struct SharedStorage {
  alignas(16) std::uint16_t tiles[kMeanStages][kMeanTokens][kTileStride];
  float largest[kParts][kMaxHeads];
  float sums[kParts][kMaxHeads];
  float means[kParts][kMaxHeads];
};
static_assert(sizeof(SharedStorage) == mean_fixed_bytes());
static_assert(sizeof(SharedStorage) % 16 == 0, "a follows it");

/// The tokens of an image: the first row and the number of rows.
struct Tokens {
  std::int64_t first;
  int count;

  __device__ __forceinline__ Tokens(const MeanParams& params, std::int64_t image)
      : first(image * params.tokens), count(params.tokens) {
    if (params.starts != nullptr) {
      first = params.starts[image];
      count = params.starts[image + 1] - params.starts[image];
    }
  }
};

/// Copies the tokens of tile `index`, and zeros for elements beyond the image or the row.
__device__ __forceinline__ void load_tile(const MeanParams& params, SharedStorage& shared,
                                          const Tokens& tokens, int first_column, int index) {
  const std::uint16_t* const image = params.x + tokens.first * params.hidden;
  constexpr int kUnits = kMeanColumns / 8;  // units of 16 bytes per row
  auto& tile = shared.tiles[index % kMeanStages];
  for (int i = static_cast<int>(threadIdx.x); i < kMeanTokens * kUnits; i += kMeanThreads) {
    const int row = i / kUnits;
    const int token = index * kMeanTokens + row;
    const int column = first_column + i % kUnits * 8;
    const bool real = token < tokens.count && column < params.hidden;
    const std::int64_t from = real ? static_cast<std::int64_t>(token) * params.hidden + column : 0;
    ptx::cp_async_16(ptx::shared_address(&tile[row][i % kUnits * 8]), image + from, real ? 16 : 0);
  }
}

/// Returns the sum of a head's parts, added in order.
__device__ __forceinline__ float sum_of_parts(const float (&parts)[kParts][kMaxHeads], int head) {
  float sum = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    sum += parts[part][head];
  }
  return sum;
}

/// Loads the scores of kBatch tokens of a part, with overlapping latencies; -inf for tokens beyond
/// the image.
__device__ __forceinline__ void load_scores(float (&batch)[kBatch], const float* scores, int first,
                                            int tokens) {
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    const int token = first + i * kParts;
    batch[i] = token < tokens ? scores[token * kMaxHeads] : -INFINITY;
  }
}

/// Fills `a`, whose rows have a pitch of `stride`, for the tokens rounded up to a multiple of
/// kMeanTokens. The block must synchronise before it is read.
__device__ __forceinline__ void soften(const MeanParams& params, SharedStorage& shared,
                                       std::uint16_t* a, int stride, const Tokens& tokens) {
  const int head = static_cast<int>(threadIdx.x) % kMaxHeads;
  const int part = static_cast<int>(threadIdx.x) / kMaxHeads;
  const float* const scores = params.scores + tokens.first * kMaxHeads + head;
  const RowNorm* const norms = params.norms + tokens.first;
  float largest = -INFINITY;
  float batch[kBatch];
  for (int first = part; first < tokens.count; first += kParts * kBatch) {
    load_scores(batch, scores, first, tokens.count);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      largest = fmaxf(largest, batch[i]);
    }
  }
  shared.largest[part][head] = largest;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    largest = fmaxf(largest, shared.largest[i][head]);
  }
  float sum = 0;
  float mean = 0;
  for (int first = part; first < stride - kPad; first += kParts * kBatch) {
    load_scores(batch, scores, first, tokens.count);
    RowNorm norm[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int token = first + i * kParts;
      norm[i] = token < tokens.count ? norms[token] : RowNorm{1.0F, 0.0F};
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int token = first + i * kParts;
      const float weight = exp2f((batch[i] - largest) * kLog2E);  // 0 beyond the image
      const std::uint32_t packed = ptx::cvt_bf16x2(weight * norm[i].scale, 0.0F);
      const float used = ptx::bf16_low(packed);
      sum += used * ptx::rcp_approx(norm[i].scale);
      mean += used * norm[i].mean;
      if (token < stride - kPad) {
        a[head * stride + token] = static_cast<std::uint16_t>(packed);
      }
    }
  }
  shared.sums[part][head] = sum;
  shared.means[part][head] = mean;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kMeanThreads)
    FOVEA_ENTRY(const __grid_constant__ MeanParams params) {
  extern __shared__ __align__(16) std::uint8_t memory[];
  auto& shared = *reinterpret_cast<SharedStorage*>(memory);
  auto* const a = reinterpret_cast<std::uint16_t*>(memory + sizeof(SharedStorage));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_column = static_cast<int>(blockIdx.x) * kMeanColumns;
  // The last images first: the kernel before this one has just read them.
  const std::int64_t image = gridDim.y - 1 - blockIdx.y;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  const Tokens tokens(params, image);
  const int tiles = (tokens.count + kMeanTokens - 1) / kMeanTokens;
  const int stride = tiles * kMeanTokens + kPad;

#pragma unroll
  for (int tile = 0; tile < kMeanStages; ++tile) {
    if (tile < tiles) {
      load_tile(params, shared, tokens, first_column, tile);
    }
    ptx::cp_async_commit_group();
  }
  soften(params, shared, a, stride, tokens);

  float sums[2][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::cp_async_wait_group<kMeanStages - 1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kMeanTokens / 16; ++step) {
      std::uint32_t weights[4];
      ptx::ldmatrix_x4(
          weights, ptx::shared_address(
                       &a[lane % 16 * stride + tile * kMeanTokens + step * 16 + lane / 16 * 8]));
      std::uint32_t values[4];
      ptx::ldmatrix_x4_trans(
          values,
          ptx::shared_address(
              &shared.tiles[tile % kMeanStages][step * 16 + lane % 16][warp * 16 + lane / 16 * 8]));
      ptx::mma_m16n8k16_bf16(sums[0], weights[0], weights[1], weights[2], weights[3], values[0],
                             values[1]);
      ptx::mma_m16n8k16_bf16(sums[1], weights[0], weights[1], weights[2], weights[3], values[2],
                             values[3]);
    }
    __syncthreads();
    if (tile + kMeanStages < tiles) {
      load_tile(params, shared, tokens, first_column, tile + kMeanStages);
    }
    ptx::cp_async_commit_group();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = lane / 4 + half * 8;
    if (head >= params.heads) {
      continue;
    }
    const float inverse = 1.0F / sum_of_parts(shared.sums, head);
    const float mean = sum_of_parts(shared.means, head);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int column = first_column + warp * 16 + n * 8 + lane % 4 * 2;
      if (column < params.hidden) {
        *reinterpret_cast<std::uint32_t*>(params.mean +
                                          (image * params.heads + head) * params.hidden + column) =
            ptx::cvt_bf16x2((sums[n][half * 2] - mean) * inverse,
                            (sums[n][half * 2 + 1] - mean) * inverse);
      }
    }
  }
}

}  // namespace fovea::pool
