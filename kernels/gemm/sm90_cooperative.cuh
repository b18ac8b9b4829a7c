// GEMM for Hopper that streams both operands: output (M, N) = epilogue(A (M, K) B (N, K)^T), for
// any M, N and K that are multiples of 16.
//
//   producer warp --A, B by TMA--> stages --full--> consumer warpgroups, 64 rows each
//                 <-------------- empty ----------'        '-- registers --> global memory
//
// Blocks are persistent and process tiles of (64 kConsumers, kColumns) in the order of
// tile_order.cuh. The warpgroups share only the ring of stages, so the epilogue of one overlaps
// with the products of another as far as the ring lets them drift apart.
//
// With kNormed the rows of A are normalised in the epilogue: if normalisation is x * scale + shift,
// the product is scale * (x B^T) + shift * (sum of B's row), so LayerNorm need not write the
// normalised matrix. B includes the weight of the LayerNorm.
//
// Shared memory: kStages x (64 kConsumers + kColumns) x 128 bytes, the columns' scales (or
// sums) and biases for each warpgroup, and the barriers.
#pragma once

#include <cstdint>

#include "kernels/epilogue/fragment.cuh"
#include "kernels/gemm/column_values.cuh"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/gemm/tile_order.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/ring.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

template <typename Cfg>
struct CooperativeGemm {
  static constexpr int kRows = kGroupRows * Cfg::kConsumers;
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kThreads = pipe::kWarpgroup * (Cfg::kConsumers + 1);
  static constexpr int kCtasPerSm = Cfg::kConsumers == 1 ? 2 : 1;
  static constexpr int kStageBytes = (kRows + Cfg::kColumns) * kBlockBytes;

  using Fragment = epilogue::Fragment<Cfg>;
  using Columns = ColumnValues<Cfg>;
  using Ring = pipe::Ring<kStages>;
  using Accumulator = typename tile::ProductOf<Cfg::kInput, Cfg::kColumns>::Accumulator;

  struct Storage {
    std::uint8_t a[kStages][kRows * kBlockBytes];
    std::uint8_t b[kStages][Cfg::kColumns * kBlockBytes];
    typename Columns::Table columns[Cfg::kConsumers];  // one per warpgroup
    Ring stages;
  };
  static_assert(sizeof(Storage) <=
                cooperative_shared_bytes(kRows, Cfg::kColumns, kStages, 2 * Cfg::kConsumers));

  /// A tile: its first token, image and column.
  struct Tile {
    std::int32_t token;
    std::int32_t image;
    std::int32_t column;
  };

  const Params& p;
  const epilogue::Params& out;
  Storage& shared;

  __device__ __forceinline__ std::int32_t tile_count() const {
    return p.row_tiles * p.column_tiles;
  }

  __device__ __forceinline__ Tile tile_at(std::int32_t index) const {
    if constexpr (Cfg::kRaster != 0) {
      const auto [row, column] = raster_place<Cfg::kRaster>(index, p.row_tiles, p.column_tiles);
      return {row / p.image_tiles * out.box_tokens, row % p.image_tiles * out.box_images,
              column * Cfg::kColumns};
    }
    const std::int32_t row = index / p.column_tiles;
    return {row / p.image_tiles * out.box_tokens, row % p.image_tiles * out.box_images,
            index % p.column_tiles * Cfg::kColumns};
  }

  __device__ __forceinline__ void load_a(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    ptx::tma_load_3d(shared.a[stage], &p.a, &shared.stages.full[stage], block * kBlockBytes,
                     tile.token, tile.image);
  }

  __device__ __forceinline__ void load_b(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    ptx::tma_load_5d(shared.b[stage], &p.b, &shared.stages.full[stage], block * kBlockBytes, 0, 0,
                     0, tile.column / Fragment::kGroupColumns);
  }

  /// The producer, one thread. Weights do not depend on earlier grids, so as many as fit are loaded
  /// before it waits for those grids.
  __device__ __forceinline__ void produce() {
    const std::int32_t early = p.k_blocks < kStages ? p.k_blocks : kStages;
    const std::int32_t count = tile_count();
    const auto first = static_cast<std::int32_t>(blockIdx.x);
    for (std::int32_t block = 0; block < early; ++block) {
      shared.stages.expect(block, kStageBytes);
      load_b(tile_at(first), block, block);
    }
    pipe::wait_for_previous_grids();
    auto state = Ring::State::producer_start();
    for (std::int32_t index = first; index < count; index += gridDim.x) {
      const Tile tile = tile_at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        if (index != first || block >= early) {
          shared.stages.wait_empty(state);
          shared.stages.expect(state.stage, kStageBytes);
          load_b(tile, block, state.stage);
        }
        load_a(tile, block, state.stage);
        state.advance();
      }
    }
  }

  __device__ __forceinline__ void release(std::uint32_t stage) {
    if (threadIdx.x % 32 == 0) {
      shared.stages.release(stage);
    }
  }

  template <bool kWhole>
  __device__ __forceinline__ void store(const Accumulator (&accumulators)[Cfg::kColumns / 2],
                                        const epilogue::Row (&rows)[2],
                                        const typename Fragment::RowScales& row_scales,
                                        std::int32_t group, std::int32_t column,
                                        typename Fragment::Addend (&addends)[2]) {
    const typename Fragment::SharedColumns columns{shared.columns[group][0],
                                                   shared.columns[group][1]};
    Fragment::template store<kWhole, true, Fragment::kHasAddend>(
        accumulators, out, rows, row_scales, columns, column, addends);
  }

  __device__ __forceinline__ void consume(std::int32_t group) {
    const std::int32_t thread = threadIdx.x % pipe::kWarpgroup;
    const std::int32_t row = group * kGroupRows + thread / 32 * 16 + thread % 32 / epilogue::kQuad;
    const std::int32_t count = tile_count();
    auto state = Ring::State::consumer_start();
    Accumulator accumulators[Cfg::kColumns / 2];
    for (std::int32_t index = blockIdx.x; index < count; index += gridDim.x) {
      const Tile tile = tile_at(index);
      const Columns column_values = Columns::load(out, tile.column);
      pipe::wait_for_previous_grids();
      epilogue::Row rows[2] = {epilogue::find_row(out, tile.token, tile.image, row),
                               epilogue::find_row(out, tile.token, tile.image, row + 8)};
      typename Fragment::Addend addends[2];
      Fragment::template load_addends<false>(addends, out, rows, tile.column);
      const auto row_scales = Fragment::load_row_scales(out, rows);

      std::uint32_t previous = 0;
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
        shared.stages.wait_full(state);
        ptx::wgmma_fence();
        tile::multiply_block<Cfg::kInput, Cfg::kColumns>(
            accumulators,
            ptx::shared_address(shared.a[state.stage] + group * kGroupRows * kBlockBytes),
            ptx::shared_address(shared.b[state.stage]), block > 0);
        if (block > 0) {
          ptx::wgmma_wait_group<1>();
          release(previous);
        }
        previous = state.stage;
        state.advance();
      }  // end region
      ptx::wgmma_wait_group<0>();
      ptx::wgmma_fence_operands(accumulators);
      release(previous);
      column_values.store(shared.columns[group], group);
      if (tile.column + Cfg::kColumns <= out.columns) {
        store<true>(accumulators, rows, row_scales, group, tile.column, addends);
      } else {
        store<false>(accumulators, rows, row_scales, group, tile.column, addends);
      }
    }
  }

  __device__ __forceinline__ void run() {
    const std::uint32_t group = pipe::warpgroup();
    pipe::make_barriers(
        [&] {
          ptx::prefetch_tensormap(&p.a);
          ptx::prefetch_tensormap(&p.b);
          // Arrivals per phase: at `full`, one by the producer, which also expects the bytes; at
          // `empty`, one by each consumer warp.
          shared.stages.init(1, Cfg::kConsumers * pipe::kWarpgroupWarps);
        },
        [] { __syncthreads(); });
    pipe::let_next_grid_start();
    pipe::run_roles<Cfg::kConsumers>(
        group,
        [&] {
          if (threadIdx.x % pipe::kWarpgroup == 0) {
            produce();
          }
        },
        [&](std::int32_t consumer) { consume(consumer); });
  }

  /// The body of a kernel.
  static __device__ __forceinline__ void run_block(const Params& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    CooperativeGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory)};
    gemm.run();
  }
};

}  // namespace fovea::gemm
