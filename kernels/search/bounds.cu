// The third step of an exact search: computes bounds of the score of each row in the selected
// tiles, with 16-bit codes of the query.
//
// Contract: u8 codes of rows as for scan, packed fine codes of queries; any pairs of a query and a
// tile. Deterministic.
//
// A warp processes one pair, and multiplies the whole panel that contains the query, which costs no
// more than a single line of it.
#include <cmath>
#include <cstdint>

#include "kernels/pipe/grid.cuh"
#include "kernels/search/row_products.cuh"

namespace fovea::row_search {
namespace of_rows {

constexpr int kTall = kTileRows / 8;

}  // namespace of_rows

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    FOVEA_ENTRY(const __grid_constant__ BoundsParams params) {
  using namespace of_rows;
  const int lane = lane_index();
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  pipe::let_next_grid_start();
  pipe::wait_for_previous_grids();
  for (int i = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
       i < params.pair_count; i += warps) {
    const Pair pair = params.pairs[i];
    const std::int64_t first = static_cast<std::int64_t>(pair.tile) * kTileRows;
    const std::uint8_t* rows = lane_bytes(params.rows, first);
    const std::int8_t* panel =
        params.queries +
        static_cast<std::int64_t>(pair.query / kFineQueries) * params.blocks * kPanelBytes;
    int sums[kTall][4] = {};
#pragma unroll 1
    for (int block = 0; block < params.blocks; ++block) {
      RowBlock<kTall> part;
      part.load(rows, params.rows.stride);
      multiply(sums, panel, part);
      rows += kBlockBytes;
      panel += kPanelBytes;
    }
    if (lane / 4 != pair.query % kFineQueries) {
      continue;
    }
    const QueryTerms query = params.query_terms[pair.query];
    Bounds* const to = params.bounds + static_cast<std::int64_t>(i) * kTileRows;
#pragma unroll
    for (int r = 0; r < kTall; ++r) {
#pragma unroll
      for (int next = 0; next < 2; ++next) {
        const int row = r * 8 + lane % 4 * 2 + next;
        Bounds bounds{0, 0};
        if (first + row < params.rows.count) {
          bounds = bounds_of(fine_sum(sums[r][next], sums[r][2 + next]),
                             params.rows.terms[first + row], query);
        }
        to[row] = bounds;
      }
    }
  }
}

}  // namespace fovea::row_search
