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
#include "kernels/pipe/pipe_state.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/warp.cuh"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

template <typename Cfg>
struct PingPongGemm {
  static constexpr int kWarpgroup = 128;
  static constexpr int kWarps = kWarpgroup / 32;
  static constexpr int kTurns = 2;  // warpgroups
  static constexpr int kCluster = kPingPongCluster;
  static constexpr int kRows = kPingPongRows;
  static constexpr int kParts = kRows / kGroupRows;  // of a tile, a product each
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kThreads = kWarpgroup * (kTurns + 1);
  static constexpr int kCtasPerSm = 1;
  // 64 Ki registers over the warpgroups; the producer needs few.
  static constexpr int kConsumerRegisters = 240;
  static constexpr int kProducerRegisters = 24;
  static constexpr int kStageBytes = (kRows + Cfg::kColumns) * kBlockBytes;
  static constexpr bool kStaging = Cfg::kEpilogue == epilogue::Kind::kResidual;

  using Fragment = epilogue::Fragment<Cfg>;
  using Columns = ColumnValues<Cfg>;
  using State = pipe::PipeState<kStages>;
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
    pipe::PipeBarriers<kStages> stages;
    std::uint64_t turns[kTurns];     // the warpgroup's products may begin
    std::uint64_t residual[kTurns];  // the warpgroup's residual is there
    std::uint64_t stored;            // the tile in `staging` has been
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
      ptx::mbarrier_arrive_expect_tx(&shared.stages.full[block], kStageBytes);
      load_b(tile_at(first), block, block);
    }
    pipe::wait_for_previous_grids();
    State state = State::producer_start();
    for (std::int32_t index = first; index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        if (index != first || block >= early) {
          ptx::mbarrier_wait_parity(&shared.stages.empty[state.stage], state.phase);
          ptx::mbarrier_arrive_expect_tx(&shared.stages.full[state.stage], kStageBytes);
          load_b(tile, block, state.stage);
        }
        ptx::tma_load_3d(shared.a[state.stage], &p.a, &shared.stages.full[state.stage],
                         block * kBlockBytes, tile.row, 0);
        state.advance();
      }
    }
    // Until then the other block's warps arrive here; its copies have been waited for.
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_wait_parity(&shared.stages.empty[state.stage], state.phase);
      state.advance();
    }
  }

  /// One thread: each tile's residual, as soon as the tile before has been stored.
  __device__ __forceinline__ void produce_residuals() {
    pipe::wait_for_previous_grids();
    const std::int32_t count = tile_count();
    auto state = pipe::PipeState<1>::producer_start();
    std::int32_t turn = 0;
    for (std::int32_t index = first_tile(); index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      ptx::mbarrier_wait_parity(&shared.stored, state.phase);
      ptx::mbarrier_arrive_expect_tx(&shared.residual[turn], kStagingBytes);
      ptx::tma_load_3d(shared.staging, &p.staged, &shared.residual[turn], 0, tile.row,
                       tile.column / Fragment::kGroupColumns);
      state.advance();
      turn = (turn + 1) % kTurns;
    }
  }

  /// To the producers of both blocks.
  __device__ __forceinline__ void release(std::uint32_t stage) {
    if (threadIdx.x % 32 < kCluster) {
      ptx::mbarrier_arrive_cluster(&shared.stages.empty[stage], threadIdx.x % 32);
    }
  }

  /// The products of a tile, when it is this warpgroup's turn.
  __device__ __forceinline__ void multiply(Accumulator (&accumulators)[kParts][Cfg::kColumns / 2],
                                           State& state, std::int32_t turn, std::uint32_t phase) {
    ptx::mbarrier_wait_parity(&shared.turns[turn], phase);
    std::uint32_t previous = 0;
    for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
      ptx::mbarrier_wait_parity(&shared.stages.full[state.stage], state.phase);
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
    // Not sooner: a parity tells neighbouring phases apart, so nobody may wait for a stage that is
    // still two rounds ahead.
    if (threadIdx.x % 32 == 0) {
      ptx::mbarrier_arrive(&shared.turns[(turn + 1) % kTurns]);
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
    const std::int32_t thread = threadIdx.x % kWarpgroup;
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
        const std::int32_t thread = threadIdx.x % kWarpgroup;
        const std::int32_t row =
            part * kGroupRows + thread / 32 * 16 + thread % 32 / epilogue::kQuad;
        const std::int32_t column = thread % epilogue::kQuad * Cfg::kVector;
        Fragment::add_in_shared(accumulators[part],
                                shared.staging + (row * Fragment::kGroupColumns + column) * 2,
                                kGroupBytes, row_scales, columns);
      } else {
        typename Fragment::Addend none[2];
        if (tile.column + Cfg::kColumns <= out.columns) {
          Fragment::template store<true, true, false>(accumulators[part], out, rows, row_scales,
                                                      columns, tile.column, none);
        } else {
          Fragment::template store<false, true, false>(accumulators[part], out, rows, row_scales,
                                                       columns, tile.column, none);
        }
      }
    }
  }

  /// The tile in `staging` goes to memory, and the next one's residual may come.
  __device__ __forceinline__ void store_staging(const Tile& tile, std::uint32_t barrier) {
    ptx::fence_proxy_async_shared();
    ptx::bar_sync(barrier, kWarpgroup);
    if (threadIdx.x % kWarpgroup == 0) {
      ptx::tma_store_3d(&p.staged, shared.staging, 0, tile.row,
                        tile.column / Fragment::kGroupColumns);
      ptx::bulk_commit_group();
      ptx::bulk_wait_group_read<0>();
      ptx::mbarrier_arrive(&shared.stored);
    }
  }

  __device__ __forceinline__ void consume(std::int32_t turn) {
    const std::uint32_t barrier = 1 + turn;  // 0 is __syncthreads
    const std::int32_t count = tile_count();
    State state = State::consumer_start();
    state.skip(turn * p.k_blocks);
    std::uint32_t phase = turn == 0 ? 1 : 0;  // the first warpgroup need not wait at first
    std::uint32_t residual_phase = 0;
    Accumulator accumulators[kParts][Cfg::kColumns / 2];
    for (std::int32_t index = first_tile() + turn * tile_step(); index < count;
         index += kTurns * tile_step()) {
      const Tile tile = tile_at(index);
      const Columns column_values = Columns::load(out, tile.column);
      pipe::wait_for_previous_grids();
      multiply(accumulators, state, turn, phase);
      phase ^= 1;
      state.skip((kTurns - 1) * p.k_blocks);
      column_values.store(shared.columns[turn], barrier);
      if constexpr (kStaging) {
        ptx::mbarrier_wait_parity(&shared.residual[turn], residual_phase);
        residual_phase ^= 1;
      }
      store(accumulators, tile, turn);
      if constexpr (kStaging) {
        store_staging(tile, barrier);
      }
    }
  }

  static __device__ __forceinline__ void sync_cluster() {
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
  }

  __device__ __forceinline__ void run() {
    const std::uint32_t group = __shfl_sync(0xffffffff, threadIdx.x / kWarpgroup, 0);
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(&p.a);
      ptx::prefetch_tensormap(&p.b);
      // full: the producer's arrival, then its bytes; empty: each warp that multiplies, of both
      // blocks.
      shared.stages.init(1, kCluster * kWarps);
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::mbarrier_init(&shared.turns[turn], kWarps);
        if (kStaging) {
          ptx::mbarrier_init(&shared.residual[turn], 1);
        }
      }
      if (kStaging) {
        ptx::mbarrier_init(&shared.stored, 1);
      }
      ptx::fence_mbarrier_init();
    }
    sync_cluster();
    pipe::let_next_grid_start();
    if (group == kTurns) {
      ptx::setmaxnreg_dec<kProducerRegisters>();
      if (threadIdx.x % kWarpgroup == 0) {
        produce();
      } else if (kStaging && threadIdx.x % kWarpgroup == 32) {
        produce_residuals();
      }
    } else {
      ptx::setmaxnreg_inc<kConsumerRegisters>();
      consume(static_cast<std::int32_t>(group));
    }
  }

  /// A kernel: what one block does.
  static __device__ __forceinline__ void run_block(const Params& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    PingPongGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory)};
    gemm.run();
  }
};

}  // namespace fovea::gemm
