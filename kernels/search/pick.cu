// The second step of an exact search: lists the tiles that may contain some of a query's best rows.
//
//   floor = the rank-th highest of the tiles' lower bounds, which at least `rank` rows reach
//   list = the tiles whose upper bound reaches the floor, in order
//
// Contract: best (queries, 2, tiles) without NaN; any rank, skip and capacity. A CTA processes one
// query. Exact and deterministic.
//
// The floor is found by a radix search, eight bits at a time from the highest: a histogram of the
// next eight bits, among the values that share the bits found so far, determines these bits.
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/search/memory.cuh"
#include "kernels/search/search_params.hpp"

namespace fovea::row_search {
namespace pick {

constexpr int kWarpsOfCta = kPickThreads / 32;
constexpr int kDigits = 256;
constexpr unsigned kEveryLane = 0xffffffffU;

struct SharedStorage {
  int counts[kDigits];
  int of_warps[2][kWarpsOfCta];
  int digit;
  int left;
};
static_assert(sizeof(SharedStorage) == kPickSharedBytes);

/// Maps a float to an unsigned number of the same order.
__device__ __forceinline__ std::uint32_t ordered(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

__device__ __forceinline__ float number_of(std::uint32_t bits) {
  return __uint_as_float((bits & 0x80000000U) != 0 ? bits & 0x7fffffffU : ~bits);
}

/// Returns the rank-th highest of `count` values, where rank <= count.
__device__ __forceinline__ float nth_highest(SharedStorage& shared, const float* numbers, int count,
                                             int rank) {
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t known = 0;  // the bits of the result that have been found
  int left = rank;          // rank of the result among the values with these bits
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread; i < kDigits; i += kPickThreads) {
      shared.counts[i] = 0;
    }
    __syncthreads();
    const std::uint32_t mask = shift == 24 ? 0 : kEveryLane << (shift + 8);
    for (int i = thread; i < count; i += kPickThreads) {
      const std::uint32_t bits = ordered(numbers[i]);
      if ((bits & mask) == known) {
        atomicAdd(&shared.counts[bits >> shift & (kDigits - 1)], 1);
      }
    }
    __syncthreads();
    if (thread == 0) {
      int digit = kDigits - 1;
      int rest = left;
      while (shared.counts[digit] < rest) {
        rest -= shared.counts[digit];
        --digit;
      }
      shared.digit = digit;
      shared.left = rest;
    }
    __syncthreads();
    known |= static_cast<std::uint32_t>(shared.digit) << shift;
    left = shared.left;
  }
  return number_of(known);
}

/// Lists the tiles whose upper bound reaches the floor, without the first `skip` of them; returns
/// their total number.
__device__ __forceinline__ int list_tiles(SharedStorage& shared, const PickParams& params,
                                          const float* uppers, float floor, std::int32_t* list) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const unsigned before = (1U << thread % 32) - 1;
  int found = 0;
  for (int first = 0, turn = 0; first < params.tiles; first += kPickThreads, turn ^= 1) {
    const int tile = first + thread;
    const bool reaches = tile < params.tiles && uppers[tile] >= floor;
    const unsigned lanes = __ballot_sync(kEveryLane, reaches ? 1 : 0);
    if (thread % 32 == 0) {
      shared.of_warps[turn][warp] = __popc(lanes);
    }
    __syncthreads();
    int place = found + __popc(lanes & before) - params.skip;
    for (int other = 0; other < kWarpsOfCta; ++other) {
      const int count = shared.of_warps[turn][other];
      place += other < warp ? count : 0;
      found += count;
    }
    if (reaches && place >= 0 && place < params.capacity) {
      list[place] = tile;
    }
  }
  return found;
}

}  // namespace pick

extern "C" __global__ void __launch_bounds__(kPickThreads)
    FOVEA_ENTRY(const __grid_constant__ PickParams params) {
  using namespace pick;
  auto& shared = *reinterpret_cast<SharedStorage*>(dynamic_memory());
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t query = blockIdx.x;
  const float* const lowers = params.best + query * 2 * params.tiles;
  std::int32_t* const picked = params.picked + query * (2 + params.capacity);
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  const float floor = params.rank <= params.tiles
                          ? nth_highest(shared, lowers, params.tiles, params.rank)
                          : -INFINITY;
  const int count = list_tiles(shared, params, lowers + params.tiles, floor, picked + 2);
  if (thread == 0) {
    picked[0] = static_cast<std::int32_t>(__float_as_uint(floor));
    picked[1] = count;
  }
  for (int i = max(count - params.skip, 0) + thread; i < params.capacity; i += kPickThreads) {
    picked[2 + i] = -1;
  }
}

}  // namespace fovea::row_search
