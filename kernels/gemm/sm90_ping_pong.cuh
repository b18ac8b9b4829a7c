// GEMM for Hopper with two warpgroups that alternate between tiles: output (M, N) = epilogue(A (M,
// K) B (N, K)^T), for any M, N and K that are multiples of 16.
//
//   producer --A, and half of B for both blocks of the cluster, by TMA--> stages --full-->
//   warpgroup 0: | products of tile 0 | epilogue of tile 0 | products of tile 2 | ...
//   warpgroup 1:                      | products of tile 1 | epilogue of tile 1 | ...
//
// A warpgroup uses the tensor cores for a whole tile of (128, kColumns), and stores it while the
// other multiplies, so that only the copies of the first tile and the epilogue of the last one are
// not hidden. Two neighbouring blocks, with one tile above the other, form a cluster: each loads
// half of their common tile of B and multicasts it to both. This reduces the traffic from L2 by
// 30%, and the energy for it, which matters because these kernels run at the card's power limit.
//
// A residual is loaded into shared memory by TMA, added to there, and stored by TMA: loading it by
// lanes would be a chain of loads that takes longer than the other warpgroup's products.
//
// Shared memory: kStages x (128 + kColumns) x 128 bytes, a tile of the residual, the columns'
// scales (or sums) and biases for each warpgroup, and the barriers.
#pragma once

#include <cstdint>

#include "kernels/epilogue/fragment.cuh"
#include "kernels/gemm/column_values.cuh"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/gemm/tile_order.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/group_barrier.cuh"
#include "kernels/pipe/ring.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

template <typename Cfg>
struct PingPongGemm {
  static constexpr int kTurns = 2;  // number of warpgroups, which take turns
  static constexpr int kCluster = kPingPongCluster;
  static constexpr int kRows = kPingPongRows;
  /// Parts of a tile, with one matrix product each.
  static constexpr int kParts = kRows / kGroupRows;
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kThreads = pipe::kWarpgroup * (kTurns + 1);
  static constexpr int kCtasPerSm = 1;
  static constexpr int kStageBytes = (kRows + Cfg::kColumns) * kBlockBytes;
  static constexpr bool kStaging = Cfg::kEpilogue == epilogue::Kind::kResidual;

  using Fragment = epilogue::Fragment<Cfg>;
  using Columns = ColumnValues<Cfg>;
  using Ring = pipe::Ring<kStages>;
  using Signal = pipe::Signal;
  using Accumulator = typename tile::ProductOf<Cfg::kInput, Cfg::kColumns>::Accumulator;
  static_assert(Cfg::kConsumers == kTurns && Cfg::kOutput == epilogue::Output::kBF16);
  static_assert(Cfg::kEpilogue != epilogue::Kind::kPosition);

  /// Bytes per column group of the residual.
  static constexpr int kGroupBytes = kRows * Fragment::kGroupColumns * 2;
  static constexpr int kStagingBytes = Fragment::kGroups * kGroupBytes;

  struct Storage {
    std::uint8_t a[kStages][kRows * kBlockBytes];
    std::uint8_t b[kStages][Cfg::kColumns * kBlockBytes];
    std::uint8_t staging[kStaging ? kStagingBytes : 128];
    typename Columns::Table columns[kTurns];
    Ring stages;
    Signal turns[kTurns];     // the warpgroup may issue its products
    Signal residual[kTurns];  // the warpgroup's residual has been loaded
    Signal stored;            // the tile in `staging` has been stored
  };
  static_assert(sizeof(Storage) <= ping_pong_shared_bytes(Cfg::kColumns, kStages, kStaging));

  /// A tile's first row and column.
  struct Tile {
    std::int32_t row;
    std::int32_t column;
  };

  const Params& p;
  const epilogue::Params& out;
  Storage& shared;

  static __device__ __forceinline__ std::int32_t rank() {
    return static_cast<std::int32_t>(blockIdx.x) % kCluster;
  }

  __device__ __forceinline__ std::int32_t cluster_rows() const {
    return (p.row_tiles + kCluster - 1) / kCluster;
  }
  /// Number of tiles of clusters. A block's own tile may lie below the matrix; it still takes part
  /// in the copies.
  __device__ __forceinline__ std::int32_t tile_count() const {
    return cluster_rows() * p.column_tiles;
  }
  static __device__ __forceinline__ std::int32_t first_tile() {
    return static_cast<std::int32_t>(blockIdx.x) / kCluster;
  }
  static __device__ __forceinline__ std::int32_t tile_step() {
    return static_cast<std::int32_t>(gridDim.x) / kCluster;
  }
  __device__ __forceinline__ Tile tile_at(std::int32_t index) const {
    if constexpr (Cfg::kRaster != 0) {
      const auto [row, column] = raster_place<Cfg::kRaster>(index, cluster_rows(), p.column_tiles);
      return {(row * kCluster + rank()) * kRows, column * Cfg::kColumns};
    }
    return {(index / p.column_tiles * kCluster + rank()) * kRows,
            index % p.column_tiles * Cfg::kColumns};
  }

  /// Loads this block's half of a block of B, for both blocks of the cluster.
  __device__ __forceinline__ void load_b(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    constexpr int kShare = Cfg::kColumns / kCluster;
    constexpr std::uint16_t kAll = (1 << kCluster) - 1;
    const std::int32_t column = tile.column + rank() * kShare;
    ptx::tma_load_5d_multicast(shared.b[stage] + rank() * kShare * kBlockBytes, &p.b,
                               &shared.stages.full[stage], kAll, block * kBlockBytes, 0, 0, 0,
                               column / Fragment::kGroupColumns);
  }

  /// The producer, one thread. Weights do not depend on earlier grids, so as many as fit are loaded
  /// before it waits for those grids.
  __device__ __forceinline__ void produce() {
    const std::int32_t early = p.k_blocks < kStages ? p.k_blocks : kStages;
    const std::int32_t count = tile_count();
    const std::int32_t first = first_tile();
    for (std::int32_t block = 0; block < early; ++block) {
      shared.stages.expect(block, kStageBytes);
      load_b(tile_at(first), block, block);
    }
    pipe::wait_for_previous_grids();
    auto state = Ring::State::producer_start();
    for (std::int32_t index = first; index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        if (index != first || block >= early) {
          shared.stages.wait_empty(state);
          shared.stages.expect(state.stage, kStageBytes);
          load_b(tile, block, state.stage);
        }
        ptx::tma_load_3d(shared.a[state.stage], &p.a, &shared.stages.full[state.stage],
                         block * kBlockBytes, tile.row, 0);
        state.advance();
      }
    }
    shared.stages.drain(state);  // the other block still arrives at these barriers
  }

  /// Loads each tile's residual as soon as the previous tile has been stored; one thread.
  __device__ __forceinline__ void produce_residuals() {
    pipe::wait_for_previous_grids();
    const std::int32_t count = tile_count();
    auto stored = Signal::State::producer_start();
    std::int32_t turn = 0;
    for (std::int32_t index = first_tile(); index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      shared.stored.wait(stored);
      shared.residual[turn].expect(kStagingBytes);
      ptx::tma_load_3d(shared.staging, &p.staged, &shared.residual[turn].barrier, 0, tile.row,
                       tile.column / Fragment::kGroupColumns);
      turn = (turn + 1) % kTurns;
    }
  }

  /// Releases a stage to the producers of both blocks.
  __device__ __forceinline__ void release(std::uint32_t stage) {
    if (threadIdx.x % 32 < kCluster) {
      shared.stages.release(stage, threadIdx.x % 32);
    }
  }

  /// Computes the products of a tile when it is this warpgroup's turn.
  __device__ __forceinline__ void multiply(Accumulator (&accumulators)[kParts][Cfg::kColumns / 2],
                                           typename Ring::State& state, std::int32_t turn,
                                           Signal::State& turn_state) {
    shared.turns[turn].wait(turn_state);
    std::uint32_t previous = 0;
    for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
      shared.stages.wait_full(state);
      ptx::wgmma_fence();
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        tile::multiply_block<Cfg::kInput, Cfg::kColumns>(
            accumulators[part],
            ptx::shared_address(shared.a[state.stage] + part * kGroupRows * kBlockBytes),
            ptx::shared_address(shared.b[state.stage]), block > 0);
      }
      if (block > 0) {
        ptx::wgmma_wait_group<kParts>();
        release(previous);
      }
      previous = state.stage;
      state.advance();
    }  // end region
    // The turn is passed only now: a parity distinguishes neighbouring phases only, so no warp may
    // wait for a stage that is two rounds ahead.
    if (threadIdx.x % 32 == 0) {
      shared.turns[(turn + 1) % kTurns].arrive();
    }
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      ptx::wgmma_fence_operands(accumulators[part]);
    }
    release(previous);
  }

  /// Finds the two rows of a part that a lane holds.
  __device__ __forceinline__ void find_rows(const Tile& tile, int part,
                                            epilogue::Row (&rows)[2]) const {
    const std::int32_t thread = threadIdx.x % pipe::kWarpgroup;
    const std::int32_t row = part * kGroupRows + thread / 32 * 16 + thread % 32 / epilogue::kQuad;
    rows[0] = epilogue::find_row(out, tile.row, 0, row);
    rows[1] = epilogue::find_row(out, tile.row, 0, row + 8);
  }

  __device__ __forceinline__ void store(
      const Accumulator (&accumulators)[kParts][Cfg::kColumns / 2], const Tile& tile,
      std::int32_t turn) {
    const typename Fragment::SharedColumns columns{shared.columns[turn][0],
                                                   shared.columns[turn][1]};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      epilogue::Row rows[2];
      find_rows(tile, part, rows);
      const auto row_scales = Fragment::load_row_scales(out, rows);
      if constexpr (kStaging) {
        const std::int32_t thread = threadIdx.x % pipe::kWarpgroup;
        const std::int32_t row =
            part * kGroupRows + thread / 32 * 16 + thread % 32 / epilogue::kQuad;
        const std::int32_t column = thread % epilogue::kQuad * Cfg::kVector;
        Fragment::add_in_shared(accumulators[part],
                                shared.staging + (row * Fragment::kGroupColumns + column) * 2,
                                kGroupBytes, row_scales, columns);
      } else {
        typename Fragment::Addend no_addends[2];
        if (tile.column + Cfg::kColumns <= out.columns) {
          Fragment::template store<true, true, false>(accumulators[part], out, rows, row_scales,
                                                      columns, tile.column, no_addends);
        } else {
          Fragment::template store<false, true, false>(accumulators[part], out, rows, row_scales,
                                                       columns, tile.column, no_addends);
        }
      }
    }
  }

  /// Stores the tile in `staging`, and lets the next residual be loaded.
  __device__ __forceinline__ void store_staging(const Tile& tile, std::int32_t turn) {
    ptx::fence_proxy_async_shared();
    pipe::GroupBarrier<pipe::kWarpgroup>(turn).sync();
    if (threadIdx.x % pipe::kWarpgroup == 0) {
      ptx::tma_store_3d(&p.staged, shared.staging, 0, tile.row,
                        tile.column / Fragment::kGroupColumns);
      ptx::bulk_commit_group();
      ptx::bulk_wait_group_read<0>();
      shared.stored.arrive();
    }
  }

  __device__ __forceinline__ void consume(std::int32_t turn) {
    const std::int32_t count = tile_count();
    auto state = Ring::State::consumer_start();
    state.skip(turn * p.k_blocks);
    // The first warpgroup does not wait for its first turn.
    auto turn_state = turn == 0 ? Signal::State::producer_start() : Signal::State::consumer_start();
    auto residual = Signal::State::consumer_start();
    Accumulator accumulators[kParts][Cfg::kColumns / 2];
    for (std::int32_t index = first_tile() + turn * tile_step(); index < count;
         index += kTurns * tile_step()) {
      const Tile tile = tile_at(index);
      const Columns column_values = Columns::load(out, tile.column);
      pipe::wait_for_previous_grids();
      multiply(accumulators, state, turn, turn_state);
      state.skip((kTurns - 1) * p.k_blocks);
      column_values.store(shared.columns[turn], turn);
      if constexpr (kStaging) {
        shared.residual[turn].wait(residual);
      }
      store(accumulators, tile, turn);
      if constexpr (kStaging) {
        store_staging(tile, turn);
      }
    }
  }

  /// Called by one thread.
  __device__ __forceinline__ void init_barriers() {
    ptx::prefetch_tensormap(&p.a);
    ptx::prefetch_tensormap(&p.b);
    // Arrivals per phase: at `full`, one by the producer, which also expects the bytes; at `empty`,
    // one by each consumer warp of both blocks.
    shared.stages.init(1, kCluster * pipe::kWarpgroupWarps);
    for (int turn = 0; turn < kTurns; ++turn) {
      shared.turns[turn].init(pipe::kWarpgroupWarps);
      if (kStaging) {
        shared.residual[turn].init(1);
      }
    }
    if (kStaging) {
      shared.stored.init(1);
    }
  }

  static __device__ __forceinline__ void sync_cluster() {
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
  }

  __device__ __forceinline__ void run() {
    const std::uint32_t group = pipe::warpgroup();
    pipe::make_barriers([&] { init_barriers(); }, [] { sync_cluster(); });
    pipe::let_next_grid_start();
    pipe::run_roles<kTurns>(
        group,
        [&] {
          if (threadIdx.x % pipe::kWarpgroup == 0) {
            produce();
          } else if (kStaging && threadIdx.x % pipe::kWarpgroup == 32) {
            produce_residuals();
          }
        },
        [&](std::int32_t turn) { consume(turn); });
  }

  /// The body of a kernel.
  static __device__ __forceinline__ void run_block(const Params& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    PingPongGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory)};
    gemm.run();
  }
};

}  // namespace fovea::gemm
