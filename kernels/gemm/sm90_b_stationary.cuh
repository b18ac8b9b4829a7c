// GEMM for Hopper with resident B: output (M, N) = epilogue(A (M, K) B (N, K)^T), for small K,
// one-byte types, and N that is a multiple of kColumns.
//
//   producer warp --A by TMA, 64 rows x 128 bytes--> stages --full--> consumer warpgroup 0, 1, ..
//                 <-------------------- empty -----------------------'   take tiles in turn
//                 --B panel (kColumns, K)-----------> panel --panel_full--> all of them
//
// To stream both operands at the full rate of the tensor cores would take 48 bytes per clock and
// SM, more than L2 sustains. Here a block keeps a panel of B and processes rows of A one tile after
// the other, so only A comes from L2. Blocks with other panels process the same rows at the same
// time, so A is read from memory once. Consumer warpgroups alternate between tiles of (64,
// kColumns) and use the tensor cores one after the other (`turn`), so that the epilogue of one
// overlaps with the products of another.
//
// The position table adds almost no traffic: tiles are 4 tokens x 16 images, so that the two rows
// of a lane have the same token, and tokens change so rarely that its values stay in registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/epilogue/fragment.cuh"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/group_barrier.cuh"
#include "kernels/pipe/ring.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/tile/product.cuh"

namespace fovea::gemm {

template <typename Cfg>
struct BStationaryGemm {
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kConsumers = Cfg::kConsumers;
  static constexpr int kThreads = pipe::kWarpgroup * (kConsumers + 1);
  static constexpr int kCtasPerSm = 1;
  static constexpr int kStageBytes = kGroupRows * kBlockBytes;
  static constexpr int kPanelBlockBytes = Cfg::kColumns * kBlockBytes;
  // With two warpgroups, the scales and biases of their columns fit in registers; with three, or
  // with residuals, they are read from shared memory.
  static constexpr bool kRegisterColumns =
      kConsumers == 2 && Cfg::kEpilogue != epilogue::Kind::kResidual;
  static constexpr int kTableColumns = kRegisterColumns ? 1 : Cfg::kColumns;
  static constexpr bool kPosition = Cfg::kEpilogue == epilogue::Kind::kPosition;

  using Fragment = epilogue::Fragment<Cfg>;
  using Ring = pipe::Ring<kStages>;
  using Panel = pipe::Ring<1>;
  using Signal = pipe::Signal;
  using Accumulator = typename tile::ProductOf<Cfg::kInput, Cfg::kColumns>::Accumulator;

  struct Storage {
    std::uint8_t b[Cfg::kKBlocks][kPanelBlockBytes];
    std::uint8_t a[kStages][kStageBytes];
    float columns[kConsumers][2][kTableColumns];  // scale and bias, for each warpgroup
    Ring stages;
    Panel panel;
    Signal turn[kConsumers];  // signalled when the warpgroup may issue its products
  };
  static_assert(sizeof(Storage) <=
                b_stationary_shared_bytes(Cfg::kColumns, Cfg::kKBlocks, kStages, 2 * kConsumers));
  static_assert(Cfg::kScaled);
  static_assert(!kPosition || kRegisterColumns, "a position's place is in registers");

  const Params& p;
  const epilogue::Params& out;
  Storage& shared;
  std::int64_t begin;  // range of this block's tiles, which are ordered by panel
  std::int64_t end;

  /// The rows of tiles that this block has in a panel.
  struct Rows {
    std::int32_t first;
    std::int32_t last;  // exclusive
  };

  __device__ __forceinline__ std::int32_t first_panel() const {
    return static_cast<std::int32_t>(begin / p.row_tiles);
  }
  __device__ __forceinline__ std::int32_t last_panel() const {  // exclusive
    return static_cast<std::int32_t>((end + p.row_tiles - 1) / p.row_tiles);
  }
  __device__ __forceinline__ Rows rows_of(std::int32_t panel) const {
    const std::int64_t base = static_cast<std::int64_t>(panel) * p.row_tiles;
    return {static_cast<std::int32_t>(begin > base ? begin - base : 0),
            static_cast<std::int32_t>(end - base < p.row_tiles ? end - base : p.row_tiles)};
  }

  __device__ __forceinline__ void load_panel(std::int32_t panel) {
    shared.panel.expect(0, p.k_blocks * kPanelBlockBytes);
    for (std::int32_t block = 0; block < p.k_blocks; ++block) {
      ptx::tma_load_5d(shared.b[block], &p.b, &shared.panel.full[0], block * kBlockBytes, 0, 0, 0,
                       panel * Fragment::kGroups, ptx::CacheHint::kEvictLast);
    }
  }

  /// The producer, one thread.
  __device__ __forceinline__ void produce() {
    load_panel(first_panel());
    pipe::wait_for_previous_grids();
    auto state = Ring::State::producer_start();
    auto panel_state = Panel::State::consumer_start();  // loaded above without waiting
    for (std::int32_t panel = first_panel(); panel < last_panel(); ++panel) {
      if (panel != first_panel()) {
        shared.panel.wait_empty(panel_state);
        panel_state.advance();
        load_panel(panel);
      }
      const Rows rows = rows_of(panel);
      for (std::int32_t row = rows.first; row < rows.last; ++row) {
        const std::int32_t token = row / p.image_tiles * out.box_tokens;
        const std::int32_t image = row % p.image_tiles * out.box_images;
        for (std::int32_t block = 0; block < p.k_blocks; ++block) {
          shared.stages.wait_empty(state);
          shared.stages.expect(state.stage, kStageBytes);
          ptx::tma_load_3d(shared.a[state.stage], &p.a, &shared.stages.full[state.stage],
                           block * kBlockBytes, token, image);
          state.advance();
        }
      }
    }
  }

  /// Copies the scales and biases of a panel to this warpgroup's part of shared memory.
  __device__ __forceinline__ void load_columns(std::int32_t group, std::int32_t first) {
    const pipe::GroupBarrier<pipe::kWarpgroup> barrier(group);
    barrier.sync();  // those of the previous panel have been read
    for (std::int32_t i = threadIdx.x % pipe::kWarpgroup; i < Cfg::kColumns;
         i += pipe::kWarpgroup) {
      shared.columns[group][0][i] = out.column_scale[first + i];
      shared.columns[group][1][i] = out.bias[first + i];
    }
    barrier.sync();
  }

  __device__ __forceinline__ void consume(std::int32_t group) {
    pipe::wait_for_previous_grids();
    const bool lead = threadIdx.x % 32 == 0;
    const std::int32_t thread = threadIdx.x % pipe::kWarpgroup;
    const std::int32_t row_in_tile = thread / 32 * 16 + thread % 32 / epilogue::kQuad;
    auto state = Ring::State::consumer_start();
    state.skip(group * p.k_blocks);
    // The first warpgroup does not wait for its first turn.
    auto turn = group == 0 ? Signal::State::producer_start() : Signal::State::consumer_start();
    auto panel_state = Panel::State::consumer_start();
    std::int64_t next = begin + group;  // this warpgroup's next tile
    typename Fragment::Addend addends[2];
    std::conditional_t<kRegisterColumns, typename Fragment::RegisterColumns,
                       typename Fragment::SharedColumns>
        columns;
    Accumulator accumulators[Cfg::kColumns / 2];

    for (std::int32_t panel = first_panel(); panel < last_panel(); ++panel) {
      shared.panel.wait_full(panel_state);
      panel_state.advance();
      const std::int64_t base = static_cast<std::int64_t>(panel) * p.row_tiles;
      const std::int32_t last = rows_of(panel).last;
      std::int32_t token_at_hand = -1;
      if constexpr (!kRegisterColumns) {
        load_columns(group, panel * Cfg::kColumns);
        columns = {shared.columns[group][0], shared.columns[group][1]};
      } else {
        columns.load_scales(out, panel * Cfg::kColumns);
        if constexpr (!kPosition) {
          columns.load_biases(out, panel * Cfg::kColumns);
        }
      }
      for (; next < base + last; next += kConsumers) {
        const std::int32_t row_tile = static_cast<std::int32_t>(next - base);
        const std::int32_t token = row_tile / p.image_tiles * out.box_tokens;
        const std::int32_t image = row_tile % p.image_tiles * out.box_images;
        const std::int32_t column = panel * Cfg::kColumns;
        epilogue::Row rows[2] = {epilogue::find_row(out, token, image, row_in_tile),
                                 epilogue::find_row(out, token, image, row_in_tile + 8)};
        if constexpr (kPosition) {
          if (token != token_at_hand) {
            token_at_hand = token;
            const std::int32_t row_token = token + row_in_tile % out.box_tokens;
            columns.load_position(out, row_token < out.tokens ? row_token : 0, column);
          }
        } else {
          Fragment::template load_addends<true>(addends, out, rows, column);
        }
        const auto row_scales = Fragment::load_row_scales(out, rows);

        shared.turn[group].wait(turn);
        std::uint32_t previous = 0;
        for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
          shared.stages.wait_full(state);
          ptx::wgmma_fence();
          tile::multiply_block<Cfg::kInput, Cfg::kColumns>(
              accumulators, ptx::shared_address(shared.a[state.stage]),
              ptx::shared_address(shared.b[block]), block > 0);
          if (block > 0) {
            ptx::wgmma_wait_group<1>();
            if (lead) {
              shared.stages.release(previous);
            }
          }
          previous = state.stage;
          state.advance();
        }  // end region
        // All products are issued: those of the next warpgroup queue behind them.
        if (lead) {
          shared.turn[group + 1 == kConsumers ? 0 : group + 1].arrive();
        }
        ptx::wgmma_wait_group<0>();
        ptx::wgmma_fence_operands(accumulators);
        if (lead) {
          shared.stages.release(previous);
        }
        state.skip((kConsumers - 1) * p.k_blocks);
        constexpr bool kAddends = Fragment::kHasAddend && !kPosition;
        if (!kPosition && out.row_scale != nullptr) {
          Fragment::template store<true, true, kAddends>(accumulators, out, rows, row_scales,
                                                         columns, column, addends);
        } else {
          Fragment::template store<true, false, kAddends>(accumulators, out, rows, row_scales,
                                                          columns, column, addends);
        }
      }
      if (lead) {
        shared.panel.release(0);
      }
    }
  }

  __device__ __forceinline__ void run() {
    const std::uint32_t group = pipe::warpgroup();
    pipe::make_barriers(
        [&] {
          ptx::prefetch_tensormap(&p.a);
          ptx::prefetch_tensormap(&p.b);
          shared.stages.init(1, pipe::kWarpgroupWarps);  // released by the warps of one warpgroup
          // Released by all consumer warps.
          shared.panel.init(1, pipe::kWarpgroupWarps * kConsumers);
          for (Signal& turn : shared.turn) {
            turn.init(pipe::kWarpgroupWarps);
          }
        },
        [] { __syncthreads(); });
    pipe::let_next_grid_start();
    pipe::run_roles<kConsumers>(
        group,
        [&] {
          if (threadIdx.x % pipe::kWarpgroup == 0 && begin < end) {
            produce();
          }
        },
        [&](std::int32_t consumer) {
          if (begin < end) {
            consume(consumer);
          }
        });
  }

  /// The body of a kernel.
  static __device__ __forceinline__ void run_block(const Params& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    const std::int64_t tiles = static_cast<std::int64_t>(params.row_tiles) * params.column_tiles;
    BStationaryGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory),
                         tiles * blockIdx.x / gridDim.x, tiles * (blockIdx.x + 1) / gridDim.x};
    gemm.run();
  }
};

}  // namespace fovea::gemm
