// The first step of an exact search: for each tile of rows and each query, computes the highest
// lower and the highest upper bound of a score. The output is a hundredth of the size of the input.
//
//   best[q][0][t] = max over the rows of tile t of lower(row, q),  best[q][1][t] likewise for upper
//
// Contract: u8 codes of rows (tiles * kTileRows, stride), packed s8 codes of queries; any number of
// rows and queries. Sums of codes are exact; a tile's results do not depend on other tiles or
// queries. Deterministic.
//
// A CTA keeps FOVEA_PANELS panels of queries in shared memory, and each warp of a group's CTAs
// processes every n-th tile, FOVEA_HEIGHT * 8 rows at a time. A query has one line of a panel, or
// with FOVEA_FINE two, for 16-bit codes. Each group of queries has separate CTAs, which process the
// same tiles at the same time, so that all but the first find the rows in L2. While a block is
// multiplied, the next kAhead blocks are being loaded, also across the ends of tiles.
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/warp.cuh"
#include "kernels/search/memory.cuh"
#include "kernels/search/row_products.cuh"

namespace fovea::row_search {
namespace scan {

constexpr int kPanels = FOVEA_PANELS;
constexpr bool kFine = FOVEA_FINE != 0;
constexpr int kHeight = FOVEA_HEIGHT;  // groups of 8 rows that a warp multiplies together
constexpr int kOfPanel = kFine ? kFineQueries : kPanelLines;
constexpr int kQueries = kPanels * kOfPanel;
constexpr int kOfLane = kFine ? 1 : 2;  // queries per lane and panel
constexpr int kStepRows = 8 * kHeight;
constexpr int kSteps = kTileRows / kStepRows;

static_assert(kTileRows % kStepRows == 0);

/// Iterates over the blocks of a warp's rows: by block, by step within a tile, by tile.
class Walk {
 public:
  __device__ __forceinline__ Walk(const ScanParams& params, int tile, int tiles_apart)
      : rows_(params.rows), blocks_(params.blocks), tile_(tile), tiles_apart_(tiles_apart) {
    begin_step();
  }

  /// Loads the current block and advances; after the last tile it repeats that tile.
  __device__ __forceinline__ void load(RowBlock<kHeight>& to) {
    to.load(address_, rows_.stride);
    address_ += kBlockBytes;
    if (++block_ == blocks_) {
      block_ = 0;
      if (++step_ == kSteps) {
        step_ = 0;
        tile_ = tile_ + tiles_apart_ < rows_.tiles ? tile_ + tiles_apart_ : tile_;
      }
      begin_step();
    }
  }

 private:
  __device__ __forceinline__ void begin_step() {
    address_ = lane_bytes(rows_, static_cast<std::int64_t>(tile_) * kTileRows + step_ * kStepRows);
  }

  const Rows& rows_;
  const std::uint8_t* address_ = nullptr;
  int blocks_;
  int block_ = 0;
  int step_ = 0;
  int tile_;
  int tiles_apart_;
};

/// The queries of a CTA in shared memory.
struct SharedQueries {
  QueryTerms* terms;
  std::int8_t* panels;
  int panel_bytes;

  __device__ __forceinline__ SharedQueries(std::uint8_t* memory, int blocks)
      : terms(reinterpret_cast<QueryTerms*>(memory)),
        panels(reinterpret_cast<std::int8_t*>(memory + kQueries * sizeof(QueryTerms))),
        panel_bytes(blocks * kPanelBytes) {}

  __device__ __forceinline__ void fill(const ScanParams& params, int group) const {
    const int units = kPanels * panel_bytes / 16;
    const auto* const from = reinterpret_cast<const uint4*>(
        params.queries + static_cast<std::int64_t>(group) * kPanels * panel_bytes);
    for (int i = static_cast<int>(threadIdx.x); i < units; i += kThreads) {
      reinterpret_cast<uint4*>(panels)[i] = from[i];
    }
    for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kThreads) {
      terms[i] = params.query_terms[group * kQueries + i];
    }
  }
  [[nodiscard]] __device__ __forceinline__ const std::int8_t* block(int panel, int index) const {
    return panels + panel * panel_bytes + index * kPanelBytes;
  }
};

using Sums = int[kPanels][kHeight][4];
using Best = Bounds[kPanels][kOfLane];

/// Merges the bounds of a step's rows into those of the tile.
__device__ __forceinline__ void take_step(const ScanParams& params, const SharedQueries& queries,
                                          std::int64_t first, const Sums& sums, Best& best) {
  // Without the fence the compiler keeps the terms of all queries in registers, across tiles.
  ptx::compiler_fence();
#pragma unroll
  for (int r = 0; r < kHeight; ++r) {
#pragma unroll
    for (int next = 0; next < 2; ++next) {
      const std::int64_t row = first + r * 8 + lane_index() % 4 * 2 + next;
      if (row >= params.rows.count) {
        continue;
      }
      const RowTerms terms = params.rows.terms[row];
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        const int(&sum)[4] = sums[panel][r];
#pragma unroll
        for (int i = 0; i < kOfLane; ++i) {
          const int product_sum = kFine ? fine_sum(sum[next], sum[2 + next]) : sum[2 * i + next];
          const Bounds bounds =
              bounds_of(product_sum, terms,
                        queries.terms[panel * kOfPanel + lane_index() / 4 + i * kFineQueries]);
          best[panel][i].lower = fmaxf(best[panel][i].lower, bounds.lower);
          best[panel][i].upper = fmaxf(best[panel][i].upper, bounds.upper);
        }
      }
    }
  }
}

/// Returns the maximum over the four lanes with the same queries.
__device__ __forceinline__ float highest(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

/// Stores a tile's bounds. The indices of lane and CTA are read again, because otherwise the
/// compiler keeps the addresses for all queries in registers.
__device__ __forceinline__ void store(const ScanParams& params, int tile, const Best& best) {
  const int lane = static_cast<int>(ptx::read_tid_x()) % 32;
  const int group = static_cast<int>(ptx::read_ctaid_x()) % params.groups;
  const int first = group * kQueries + lane / 4;
  const std::int64_t apart = 2 * static_cast<std::int64_t>(params.rows.tiles);
  float* const to = params.best + first * apart + tile;
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const float lower = highest(best[panel][i].lower);
      const float upper = highest(best[panel][i].upper);
      const int query = panel * kOfPanel + i * kFineQueries;
      if (lane % 4 == 0 && first + query < params.query_count) {
        to[query * apart] = lower;
        to[query * apart + params.rows.tiles] = upper;
      }
    }
  }
}

/// Computes the sums of a step: all blocks of its rows with all panels. `ahead` holds the first
/// blocks of this step, and afterwards those of the next step.
__device__ __forceinline__ void add_up(const SharedQueries& queries, Walk& walk, int blocks,
                                       RowBlock<kHeight> (&ahead)[kAhead], Sums& sums) {
#pragma unroll 1
  for (int first = 0; first < blocks; first += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        multiply(sums[panel], queries.block(panel, first + i), ahead[i]);
      }
      walk.load(ahead[i]);
    }
  }
}

}  // namespace scan

extern "C" __global__ void __launch_bounds__(kThreads, FOVEA_CTAS)
    FOVEA_ENTRY(const __grid_constant__ ScanParams params) {
  using namespace scan;
  const SharedQueries queries(dynamic_memory(), params.blocks);
  const int group = static_cast<int>(blockIdx.x) % params.groups;
  const int worker = static_cast<int>(blockIdx.x) / params.groups;
  const int workers = static_cast<int>(gridDim.x) / params.groups;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  queries.fill(params, group);
  __syncthreads();

  int tile = worker * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (tile >= params.rows.tiles) {
    return;
  }
  Walk walk(params, tile, workers * kWarps);
  RowBlock<kHeight> ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    walk.load(ahead[i]);
  }
  for (; tile < params.rows.tiles; tile += workers * kWarps) {
    Best best;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        best[panel][i] = {-INFINITY, -INFINITY};
      }
    }
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      Sums sums = {};
      add_up(queries, walk, params.blocks, ahead, sums);
      take_step(params, queries, static_cast<std::int64_t>(tile) * kTileRows + step * kStepRows,
                sums, best);
    }
    store(params, tile, best);
  }
}

}  // namespace fovea::row_search
