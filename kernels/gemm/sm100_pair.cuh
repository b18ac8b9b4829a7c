// GEMM for Blackwell by pairs of CTAs: output (M, N) = epilogue(A (M, K) B (N, K)^T), for any M, N
// and K that are multiples of 16.
//
//   producer, each CTA --its rows of A, its half of B, by TMA--> stages --full--> the pair's one
//   issuing thread --tcgen05.mma--> accumulators in tensor memory, two sets of them:
//   issuing thread     | products of tile 0 | products of tile 1  | products of tile 2  | ...
//   epilogue's 8 warps                      | epilogue of tile 0  | epilogue of tile 1  | ...
//                      tensor memory -> registers -> swizzled shared memory --TMA--> output
//
// Two CTAs form a cluster and compute tiles of (256, kColumns) together: each has 128 rows of A and
// of the accumulators, and half of B's tile, which both tensor cores read. Where K is small, their
// rows of A stay in shared memory as a panel for all tiles of a row of tiles, and the stages hold
// only B: a pair then computes consecutive tiles, and A is read from L2 once per row of tiles, or
// twice where two pairs share the row. A block of the next panel is loaded as soon as the row's
// last products with the same block of this panel are done.
//
// A lane of the epilogue has 32 columns of one row. If it stored them itself, each lane would
// access another line of memory, so rows are staged in shared memory. A residual is loaded there by
// TMA, and the products are added to it. Two warps share the 32 lanes of tensor memory that a warp
// can read, each with half of the columns.
//
// Barriers, in the first CTA (F) or in each (E), and what completes their phases:
//   stages.full        F  the first producer's arrival, and the bytes of both CTAs' copies
//   stages.empty       E  the tensor cores, when the products that read the stage are done
//   panel.full         F  as stages.full, for a block of the panel
//   panel.empty        E  the tensor cores, when a row's last products with the block are done
//   accumulators.full  E  the tensor cores, when a tile's products are done
//   accumulators.empty F  the warps of both epilogues, when they have loaded the accumulators
//   residual           E  one per warp: the bytes of its part of the residual
//
// Normalisation of A's rows is part of the epilogue (see sm90_cooperative.cuh). Rows are numbered
// by (token, image): when a tile has a few tokens of many images, the lanes of a warp share a few
// rows of the position table.
//
// Block scales (MXFP8) are loaded with their operands: an atom for the CTA's rows of A, and the
// atoms for all of the tile's columns of B, because both tensor cores need them. The issuing thread
// copies them to tensor memory behind the accumulators, to columns reserved for the stage (or the
// panel's block): when that is filled again, the products that read them are done. A lane has one
// block of the output, computes its scale, and stores that byte.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/epilogue/row_fragment.cuh"
#include "kernels/gemm/sm100_pair_config.cuh"
#include "kernels/gemm/sm100_pair_tiles.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/ring.cuh"
#include "kernels/pipe/roles.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tcgen05.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/warp.cuh"
#include "kernels/tile/umma.cuh"

namespace fovea::gemm {

template <typename Cfg>
struct PairGemm {
  static constexpr int kThreads = Cfg::kThreads;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kABlocks = Cfg::kABlocks;
  static constexpr bool kPanel = Cfg::kPanel;
  static constexpr int kAccumulators = Cfg::kAccumulators;
  static constexpr int kEpilogueWarps = Cfg::kEpilogueWarps;
  static constexpr std::uint16_t kBoth = 3;  // mask of both CTAs
  static constexpr bool kResidual = Cfg::kEpilogue == epilogue::Kind::kResidual;
  static constexpr int kGroupColumns = epilogue::kScaleBlock * epilogue::kScaleGroup;

  using Fragment = epilogue::RowFragment<Cfg>;
  using Product = tile::UmmaPair<Cfg::kInput, Cfg::kColumns>;
  using Accumulator = typename tile::UmmaOf<Cfg::kInput>::Accumulator;
  using Ring = pipe::Ring<kStages>;
  using Panel = pipe::Ring<kABlocks>;
  using Accumulators = pipe::Ring<kAccumulators>;
  using Signal = pipe::Signal;

  // A warp's part of a tile has 32 rows by kShare columns, in boxes of kSpan bytes by 32 rows.
  static constexpr int kWarpRows = kPairWarpRows;
  static constexpr int kSpanColumns = Cfg::kSpan / Fragment::Values::kBytes;
  static constexpr int kBoxes = Cfg::kShare / kSpanColumns;
  static constexpr int kBoxBytes = kWarpRows * Cfg::kSpan;
  /// Loads from tensor memory per tile.
  static constexpr int kLoads = Cfg::kShare / Fragment::kColumns;
  static constexpr int kBoxLoads = kSpanColumns / Fragment::kColumns;
  static_assert(kBoxes * kSpanColumns == Cfg::kShare && kBoxLoads > 0);

  using KernelParams = std::conditional_t<Cfg::kBlockScaled, BlockScaledParams, Params>;
  struct ScaleAtoms {
    std::uint8_t a[kABlocks][kAtomBytes];
    std::uint8_t b[kStages][Cfg::kBAtoms * kAtomBytes];
  };
  struct None {};
  using Scales = std::conditional_t<Cfg::kBlockScaled, ScaleAtoms, None>;
  using PanelBarriers = std::conditional_t<kPanel, Panel, None>;
  struct Storage {
    std::uint8_t a[kABlocks][kPairRows * kBlockBytes];
    std::uint8_t b[kStages][Cfg::kColumns / 2 * kBlockBytes];
    std::uint8_t staging[kEpilogueWarps][kBoxes][kBoxBytes];
    [[no_unique_address]] Scales scales;
    float columns[kEpilogueWarps][2][Cfg::kShare];  // scale or sum, bias; per warp
    Ring stages;
    [[no_unique_address]] PanelBarriers panel;
    Accumulators accumulators;
    Signal residual[kEpilogueWarps];
    std::uint32_t tensor_memory;  // address of the accumulators
  };
  static_assert(sizeof(Storage) <= Cfg::kSharedBytes);

  const KernelParams& p;
  const epilogue::Params& out;
  Storage& shared;
  PairTiles<Cfg> tiles;

  // The producer

  /// Expects the bytes of both CTAs, on the first CTA only; `bytes`: those of one CTA.
  __device__ __forceinline__ void expect(std::uint64_t* full, std::uint32_t bytes) {
    if (tiles.rank == 0) {
      ptx::mbarrier_arrive_expect_tx(full, 2 * bytes);
    }
  }
  /// Loads a block of A into slot `to` of the stages or of the panel; `full` is its barrier.
  __device__ __forceinline__ void load_a(const Part& tile, std::int32_t block, std::uint32_t to,
                                         std::uint64_t* full) {
    ptx::tma_load_3d_pair(shared.a[to], &p.a, ptx::mapa(full, 0), block * kBlockBytes, tile.token,
                          tile.image);
    if constexpr (Cfg::kBlockScaled) {
      load_scales(shared.scales.a[to], &p.a_scales, tile.token, block, full);
    }
  }
  __device__ __forceinline__ void load_b(const Part& tile, std::int32_t block,
                                         std::uint32_t stage) {
    const std::int32_t row =
        tile.column + static_cast<std::int32_t>(tiles.rank) * (Cfg::kColumns / 2);
    std::uint64_t* const full = &shared.stages.full[stage];
    ptx::tma_load_3d_pair(shared.b[stage], &p.b, ptx::mapa(full, 0), block * kBlockBytes, row, 0);
    if constexpr (Cfg::kBlockScaled) {
      load_scales(shared.scales.b[stage], &p.b_scales, tile.column, block, full);
    }
  }
  /// Loads the atoms from the one with `row` on, as many as the map's box has.
  __device__ __forceinline__ void load_scales(std::uint8_t* to, const TensorMap* map,
                                              std::int32_t row, std::int32_t block,
                                              std::uint64_t* full) {
    ptx::tma_load_3d_pair(to, map, ptx::mapa(full, 0), 0, 2 * block, row / kAtomRows);
  }

  /// The producer, one thread. Weights do not depend on earlier grids, so as many as fit are loaded
  /// before it waits for those grids. With a panel it never waits for them, because it loads only
  /// weights.
  __device__ __forceinline__ void produce() {
    const std::int32_t early = p.k_blocks < kStages ? p.k_blocks : kStages;
    const TileRange mine = tiles.range();
    for (std::int32_t block = 0; block < early; ++block) {
      expect(&shared.stages.full[block], Cfg::kStageBytes);
      load_b(tiles.at(mine.first), block, block);
    }
    if constexpr (!kPanel) {
      pipe::wait_for_previous_grids();
    }
    auto state = Ring::State::producer_start();
    for (std::int32_t index = mine.first; index < mine.end; index += mine.step) {
      const Part tile = tiles.at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        std::uint64_t* const full = &shared.stages.full[state.stage];
        if (index != mine.first || block >= early) {
          shared.stages.wait_empty(state);
          expect(full, Cfg::kStageBytes);
          load_b(tile, block, state.stage);
        }
        if constexpr (!kPanel) {
          load_a(tile, block, state.stage, full);
        }
        state.advance();
      }
    }
    shared.stages.drain(state);  // the tensor cores still arrive at these barriers
  }

  /// The state of a block of the panel, whose blocks are all in the same phase.
  static __device__ __forceinline__ typename Panel::State of_block(std::int32_t block,
                                                                   const Signal::State& row) {
    return {static_cast<std::uint32_t>(block), row.phase};
  }

  /// The producer of A's panel, one thread: loads the panel of each row of tiles.
  __device__ __forceinline__ void produce_panel() {
    const TileRange mine = tiles.range();
    auto row = Signal::State::producer_start();  // common to all blocks of the panel
    pipe::wait_for_previous_grids();
    for (std::int32_t index = mine.first; index < mine.end; index = tiles.next_row(index)) {
      const Part tile = tiles.at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        std::uint64_t* const full = &shared.panel.full[block];
        shared.panel.wait_empty(of_block(block, row));
        expect(full, Cfg::kABytes);
        load_a(tile, block, block, full);
      }
      row.advance();
    }
    // The CTA must not exit before the tensor cores have arrived at these barriers.
    for (std::int32_t block = 0; block < p.k_blocks; ++block) {
      shared.panel.wait_empty(of_block(block, row));
    }
  }

  // The products

  // The address of tensor memory is passed in a register: after every copy and commit in the
  // product loop the compiler would read it from shared memory again.

  /// Copies the scales of a block of A to tensor memory, and returns their address.
  __device__ __forceinline__ std::uint32_t copy_a_scales(std::uint32_t tensor_memory,
                                                         std::uint32_t block, bool is_new) {
    const std::uint32_t to = tensor_memory + Cfg::kFirstAScale + block * kAtomColumns;
    if (is_new) {
      ptx::tcgen05_cp_32x128b_pair(
          to, tile::umma_descriptor_atom(ptx::shared_address(shared.scales.a[block])));
    }
    return to;
  }
  /// The same for a stage of B; the first atom may begin with rows of the previous tile.
  __device__ __forceinline__ std::uint32_t copy_b_scales(std::uint32_t tensor_memory,
                                                         std::uint32_t stage) {
    const std::uint32_t to =
        tensor_memory + Cfg::kFirstBScale + stage * Cfg::kBAtoms * kAtomColumns;
#pragma unroll
    for (int atom = 0; atom < Cfg::kBAtoms; ++atom) {
      ptx::tcgen05_cp_32x128b_pair(to + atom * kAtomColumns,
                                   tile::umma_descriptor_atom(ptx::shared_address(
                                       &shared.scales.b[stage][atom * kAtomBytes])));
    }
    return to;
  }

  /// Issues the products; one thread of the first CTA.
  __device__ __forceinline__ void multiply() {
    const std::uint32_t tensor_memory = shared.tensor_memory;
    const TileRange mine = tiles.range();
    auto state = Ring::State::consumer_start();
    auto turn = Accumulators::State::producer_start();
    bool is_new = true;                          // whether the tile is the first to use the panel
    auto row = Signal::State::consumer_start();  // phase of the panel
    for (std::int32_t index = mine.first; index < mine.end; index += mine.step) {
      const std::int32_t column = Cfg::kBlockScaled ? tiles.at(index).column : 0;
      const bool is_last = kPanel && (index + 1 == mine.end || index + 1 == tiles.next_row(index));
      shared.accumulators.wait_empty(turn);
      ptx::tcgen05_fence_after_thread_sync();
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
        if constexpr (kPanel) {
          if (is_new) {
            shared.panel.wait_full(of_block(block, row));
          }
        }
        shared.stages.wait_full(state);
        const std::uint32_t a_block = kPanel ? block : state.stage;
        const std::uint32_t sums = tensor_memory + turn.stage * Cfg::kColumns;
        const std::uint32_t a = ptx::shared_address(shared.a[a_block]);
        const std::uint32_t b = ptx::shared_address(shared.b[state.stage]);
        if constexpr (Cfg::kBlockScaled) {
          const std::uint32_t a_scales = copy_a_scales(tensor_memory, a_block, !kPanel || is_new);
          const std::uint32_t b_scales = copy_b_scales(tensor_memory, state.stage);
          Product::multiply_block(sums, a, b, a_scales, b_scales + column % kAtomRows / 32,
                                  block > 0);
        } else {
          Product::multiply_block(sums, a, b, block > 0);
        }
        ptx::tcgen05_commit_multicast_pair(&shared.stages.empty[state.stage], kBoth);
        if constexpr (kPanel) {
          if (is_last) {
            ptx::tcgen05_commit_multicast_pair(&shared.panel.empty[block], kBoth);
          }
        }
        state.advance();
      }  // end region
      ptx::tcgen05_commit_multicast_pair(&shared.accumulators.full[turn.stage], kBoth);
      turn.advance();
      is_new = is_last;
      if (is_last) {
        row.advance();
      }
    }
    // The other CTA's warps arrive at these barriers until the last tile's accumulators are
    // released.
    turn.skip(kAccumulators - 1);
    shared.accumulators.wait_empty(turn);
  }

  // The epilogue: a warp's part of each tile

  /// Scales (or sums) and biases of the part's columns, four per lane.
  struct ColumnValues {
    float4 scale;
    float4 bias;
  };
  __device__ __forceinline__ ColumnValues load_columns(std::int32_t first,
                                                       std::int32_t lane) const {
    ColumnValues values{};
    const std::int32_t column = first + lane * 4;
    if (lane * 4 < Cfg::kShare && column < out.columns) {
      if constexpr (Cfg::kScaled) {
        values.scale = __ldg(reinterpret_cast<const float4*>(out.column_scale + column));
      } else if constexpr (Cfg::kNormed) {
        values.scale = __ldg(reinterpret_cast<const float4*>(out.column_sum + column));
      }
      if constexpr (Fragment::Values::kHasBias) {
        values.bias = __ldg(reinterpret_cast<const float4*>(out.bias + column));
      }
    }
    return values;
  }
  /// Overwrites the values of the previous tile, which all lanes have read: the warp synchronised
  /// to store that tile's last box. It synchronises again before it reads these values, here or in
  /// acquire_box().
  __device__ __forceinline__ void store_columns(const ColumnValues& values, std::int32_t warp,
                                                std::int32_t lane) {
    if (lane * 4 < Cfg::kShare) {
      if constexpr (Cfg::kScaled || Cfg::kNormed) {
        *reinterpret_cast<float4*>(&shared.columns[warp][0][lane * 4]) = values.scale;
      }
      if constexpr (Fragment::Values::kHasBias) {
        *reinterpret_cast<float4*>(&shared.columns[warp][1][lane * 4]) = values.bias;
      }
    }
    if constexpr (kResidual) {
      __syncwarp();
    }
  }

  /// Loads the residual into the boxes; one lane calls it when the previous tile's stores have read
  /// them.
  __device__ __forceinline__ void load_residual(const Part& part, std::int32_t warp) {
    shared.residual[warp].expect(kBoxes * kBoxBytes);
    for (int box = 0; box < kBoxes; ++box) {
      ptx::tma_load_3d(shared.staging[warp][box], &p.staged, &shared.residual[warp].barrier,
                       part.column + box * kSpanColumns, part.token, part.image);
    }
  }

  /// Waits until a box may be written.
  __device__ __forceinline__ void acquire_box(std::int32_t lane) {
    if constexpr (!kResidual) {
      if (lane == 0) {
        ptx::bulk_wait_group_read<kBoxes - 1>();
      }
      __syncwarp();
    }
  }
  __device__ __forceinline__ void store_box(const Part& part, int box, std::int32_t warp,
                                            std::int32_t lane) {
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      ptx::tma_store_3d(&p.staged, shared.staging[warp][box], part.column + box * kSpanColumns,
                        part.token, part.image);
      ptx::bulk_commit_group();
    }
  }

  /// Stores the scale of a block of the output; zero for rows beyond the matrix in its last atom.
  __device__ __forceinline__ void store_scale(const epilogue::Row& row, std::int32_t block,
                                              std::uint32_t scale) const {
    const std::int32_t groups = (out.columns + kGroupColumns - 1) / kGroupColumns;
    const std::int32_t rows = (out.tokens + kAtomRows - 1) / kAtomRows * kAtomRows;
    if (block < groups * epilogue::kScaleGroup && row.index < rows) {
      p.output_scales[epilogue::scale_place(row.index, block / epilogue::kScaleGroup, groups) +
                      block % epilogue::kScaleGroup] =
          static_cast<std::uint8_t>(row.valid ? scale : 0U);
    }
  }
  /// Fills the last group with zeros when it has blocks beyond the last tile.
  __device__ __forceinline__ void fill_group(const epilogue::Row& row, const Part& part) const {
    const std::int32_t end = part.column + Cfg::kShare;
    if (end >= p.column_tiles * Cfg::kColumns) {
      for (std::int32_t block = end / Fragment::kColumns; block % epilogue::kScaleGroup != 0;
           ++block) {
        store_scale(row, block, 0);
      }
    }
  }

  /// Tells the issuing thread that the set of accumulators has been loaded into registers.
  __device__ __forceinline__ void release(std::uint32_t set, std::int32_t lane) {
    ptx::tcgen05_fence_before_thread_sync();
    if (lane == 0) {
      shared.accumulators.release(set, 0);
    }
  }

  __device__ __forceinline__ void finish(std::int32_t warp) {
    const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
    const std::uint32_t tensor_memory = shared.tensor_memory +
                                        (static_cast<std::uint32_t>(warp % 4 * kWarpRows) << 16) +
                                        warp / 4 * Cfg::kShare;
    const TileRange mine = tiles.range();
    auto turn = Accumulators::State::consumer_start();
    auto residual = Signal::State::consumer_start();
    pipe::wait_for_previous_grids();
    if (kResidual && lane == 0) {
      load_residual(tiles.of_warp(tiles.at(mine.first), warp), warp);
    }
    for (std::int32_t index = mine.first; index < mine.end; index += mine.step) {
      const Part tile = tiles.at(index);
      const Part part = tiles.of_warp(tile, warp);
      const epilogue::Row row =
          epilogue::find_row(out, tile.token, tile.image, warp % 4 * kWarpRows + lane);
      store_columns(load_columns(part.column, lane), warp, lane);
      const auto row_scale = Fragment::load_row_scale(out, row);
      typename Fragment::Addend addends[2] = {Fragment::load_position(out, row, part.column), {}};
      if constexpr (kResidual) {
        shared.residual[warp].wait(residual);
      }
      shared.accumulators.wait_full(turn);
      ptx::tcgen05_fence_after_thread_sync();
      const std::uint32_t accumulators = tensor_memory + turn.stage * Cfg::kColumns;
      std::uint32_t values[2][Fragment::kColumns];
      ptx::tcgen05_ld_32x32b_x32(values[0], accumulators);
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {  // region: epilogue loop
        ptx::tcgen05_wait_ld();
        ptx::tcgen05_fence_loaded(values[load % 2]);
        if (load + 1 < kLoads) {
          ptx::tcgen05_ld_32x32b_x32(values[(load + 1) % 2],
                                     accumulators + (load + 1) * Fragment::kColumns);
          addends[(load + 1) % 2] =
              Fragment::load_position(out, row, part.column + (load + 1) * Fragment::kColumns);
        } else {
          release(turn.stage, lane);
        }
        const int box = load / kBoxLoads;
        if (load % kBoxLoads == 0) {
          acquire_box(lane);
        }
        std::uint8_t* const span = shared.staging[warp][box] + lane * Cfg::kSpan;
        const std::uint32_t unit = load % kBoxLoads * Fragment::kUnits;
        const float* const biases = &shared.columns[warp][1][load * Fragment::kColumns];
        if constexpr (Fragment::kInBlocks) {
          const std::uint32_t scale =
              Fragment::store_block(values[load % 2], biases, span, lane, unit);
          store_scale(row, part.column / Fragment::kColumns + load, scale);
        } else {
          Fragment::template store<Accumulator>(values[load % 2], out, row_scale,
                                                &shared.columns[warp][0][load * Fragment::kColumns],
                                                biases, addends[load % 2], span, lane, unit);
        }
        if (load % kBoxLoads == kBoxLoads - 1) {
          store_box(part, box, warp, lane);
        }
      }  // end region
      if constexpr (Fragment::kInBlocks) {
        fill_group(row, part);
      }
      turn.advance();
      if (kResidual && lane == 0 && index + mine.step < mine.end) {
        ptx::bulk_wait_group_read<0>();
        load_residual(tiles.of_warp(tiles.at(index + mine.step), warp), warp);
      }
    }
    if (lane == 0) {
      ptx::bulk_wait_group_read<0>();
    }
  }

  /// Synchronises all warps of both CTAs, so that neither exits or frees its tensor memory while
  /// the other still uses it. Each warp has fenced its last loads when it released the
  /// accumulators.
  static __device__ __forceinline__ void leave() {
    __syncwarp();
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
  }

  /// Called by one thread.
  __device__ __forceinline__ void init_barriers() {
    ptx::prefetch_tensormap(&p.a);
    ptx::prefetch_tensormap(&p.b);
    ptx::prefetch_tensormap(&p.staged);
    if constexpr (Cfg::kBlockScaled) {
      ptx::prefetch_tensormap(&p.a_scales);
      ptx::prefetch_tensormap(&p.b_scales);
    }
    shared.stages.init(1, 1);
    if constexpr (kPanel) {
      shared.panel.init(1, 1);
    }
    shared.accumulators.init(1, 2 * kEpilogueWarps);
    if constexpr (kResidual) {
      for (Signal& residual : shared.residual) {
        residual.init(1);
      }
    }
  }

  __device__ __forceinline__ void run() {
    const auto warp =
        static_cast<std::int32_t>(__shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0));
    pipe::make_barriers([&] { init_barriers(); },
                        [&] {
                          if (warp == Cfg::kProductWarp) {
                            ptx::tcgen05_alloc_pair<Cfg::kTensorColumns>(&shared.tensor_memory);
                            ptx::tcgen05_relinquish_alloc_permit_pair();
                          }
                          __syncthreads();
                          ptx::barrier_cluster_arrive_relaxed();
                          ptx::barrier_cluster_wait();
                        });
    pipe::let_next_grid_start();
    if (warp == Cfg::kProductWarp) {
      if (tiles.rank == 0 && ptx::elect_sync()) {
        multiply();
      }
      leave();
      ptx::tcgen05_dealloc_pair<Cfg::kTensorColumns>(shared.tensor_memory);
    } else if (warp < kEpilogueWarps) {
      finish(warp);
      leave();
    } else {
      if (ptx::elect_sync()) {
        if (warp == Cfg::kProducerWarp) {
          produce();
        } else if constexpr (kPanel) {
          produce_panel();
        }
      }
      leave();
    }
  }

  /// The body of a kernel.
  static __device__ __forceinline__ void run_block(const KernelParams& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    PairGemm gemm{params,
                  params.epilogue,
                  *reinterpret_cast<Storage*>(memory),
                  {params, ptx::cluster_ctarank()}};
    gemm.run();
  }
};

}  // namespace fovea::gemm
