// GEMM for Hopper whose two warpgroups take tiles in turn: output (M, N) = epilogue(A (M, K) B (N,
// K)^T), any M, N and K in multiples of 16.
//
//   producer --A, and half of B for both blocks of the cluster, by TMA--> stages --full-->
//   warpgroup 0: | products of tile 0 | epilogue of tile 0 | products of tile 2 | ...
//   warpgroup 1:                      | products of tile 1 | epilogue of tile 1 | ...
//
// A warpgroup has the tensor cores for a whole tile of (128, kColumns) and stores it while the
// other multiplies, so that nothing but the first tile's copies and the last one's epilogue is
// exposed. Two neighbouring blocks, one tile above the other, are a cluster: each loads half of
// their common tile of B and sends it to both, which spares L2 and the wires to it 30% of the
// traffic and the card, which is at its power limit in these kernels, that much energy.
//
// A residual comes by TMA to shared memory, gets its sum there and leaves by TMA: read by lanes it
// would be a chain of loads that takes longer than the other warpgroup's products.
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
  static constexpr int kTurns = 2;  // warpgroups
  static constexpr int kCluster = kPingPongCluster;
  static constexpr int kRows = kPingPongRows;
  static constexpr int kParts = kRows / kGroupRows;  // of a tile, a product each
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

  static constexpr int kGroupBytes = kRows * Fragment::kGroupColumns * 2;  // of the residual
  static constexpr int kStagingBytes = Fragment::kGroups * kGroupBytes;

  struct Storage {
    std::uint8_t a[kStages][kRows * kBlockBytes];
    std::uint8_t b[kStages][Cfg::kColumns * kBlockBytes];
    std::uint8_t staging[kStaging ? kStagingBytes : 128];
    typename Columns::Table columns[kTurns];
    Ring stages;
    Signal turns[kTurns];     // the warpgroup's products may begin
    Signal residual[kTurns];  // the warpgroup's residual is there
    Signal stored;            // the tile in `staging` has been
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
  /// Tiles of clusters. A block's may lie below the matrix: it takes part in the copies.
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

  /// This block's half, to both blocks.
  __device__ __forceinline__ void load_b(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    constexpr int kShare = Cfg::kColumns / kCluster;
    constexpr std::uint16_t kAll = (1 << kCluster) - 1;
    const std::int32_t column = tile.column + rank() * kShare;
    ptx::tma_load_5d_multicast(shared.b[stage] + rank() * kShare * kBlockBytes, &p.b,
                               &shared.stages.full[stage], kAll, block * kBlockBytes, 0, 0, 0,
                               column / Fragment::kGroupColumns);
  }

  /// One thread. Weights do not depend on earlier grids: as many as fit are fetched before waiting.
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
    shared.stages.drain(state);  // its copies have been waited for
  }

  /// One thread: each tile's residual, as soon as the tile before has been stored.
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

  /// Tells the producers of both blocks.
  __device__ __forceinline__ void release(std::uint32_t stage) {
    if (threadIdx.x % 32 < kCluster) {
      shared.stages.release(stage, threadIdx.x % 32);
    }
  }

  /// The products of a tile, when it is this warpgroup's turn.
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
    // Not sooner: a parity tells neighbouring phases apart, so that no warp may wait for a stage
    // that is still two rounds ahead.
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

  /// The part's rows that a lane holds.
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

  /// The tile in `staging` goes to memory, and the next one's residual may come.
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
    // The first warpgroup need not wait at first.
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

  /// One thread.
  __device__ __forceinline__ void init_barriers() {
    ptx::prefetch_tensormap(&p.a);
    ptx::prefetch_tensormap(&p.b);
    // full: the producer's arrival, then its bytes; empty: each warp that multiplies, of both
    // blocks.
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

  /// A kernel: what one block does.
  static __device__ __forceinline__ void run_block(const Params& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    PingPongGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory)};
    gemm.run();
  }
};

}  // namespace fovea::gemm
