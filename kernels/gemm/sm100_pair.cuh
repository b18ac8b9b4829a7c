// GEMM for Blackwell by pairs of CTAs: output (M, N) = epilogue(A (M, K) B (N, K)^T), any M, N and
// K in multiples of 16.
//
//   producer, each CTA --its rows of A, its half of B, by TMA--> stages --full--> the pair's one
//   issuing thread --tcgen05.mma--> accumulators in tensor memory, two sets of them:
//   issuing thread     | products of tile 0 | products of tile 1  | products of tile 2  | ...
//   epilogue's 8 warps                      | epilogue of tile 0  | epilogue of tile 1  | ...
//                      tensor memory -> registers -> swizzled shared memory --TMA--> output
//
// Two CTAs are a cluster and take tiles of (256, kColumns) together: each has 128 rows of A and of
// the accumulators, and half of B's tile, which both tensor cores read. A lane of the epilogue has
// a row of 32 columns: stored by itself it would touch a line of memory for each lane, so rows pass
// through shared memory. A residual comes there by TMA and gets its sum. Two warps share the 32
// lanes of tensor memory that a warp can read, each with half of the columns.
//
// Barriers, F of the first CTA, E of each:
//   stages.full        F  its producer's arrival, then the bytes of both CTAs' copies
//   stages.empty       E  the tensor cores', when the products that read the stage are done
//   accumulators.full  E  the tensor cores', when a tile's products are done
//   accumulators.empty F  the warps of both epilogues, when they have what they need in registers
//   residual           E  one a warp: the bytes of its part of the residual
//
// Rows of A that are to be normalised are multiplied as they are (sm90_cooperative.cuh). Rows come
// as (token, image): where tiles are a few tokens of many images, the lanes of a warp share a few
// rows of the position table.
//
// Scales of blocks (MXFP8) come with the stages: an atom for the CTA's rows of A, and those of all
// of the tile's columns of B, which both tensor cores multiply with. The issuing thread copies
// them to tensor memory, behind the accumulators, to columns that the stage has for itself: when it
// is filled again the products that read them are done. A lane has a block of the output, finds its
// scale, and stores that byte.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/epilogue/row_fragment.cuh"
#include "kernels/gemm/gemm_params.hpp"
#include "kernels/gemm/tile_order.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/pipe_state.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tcgen05.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/warp.cuh"
#include "kernels/tile/umma.cuh"

namespace fovea::gemm {

/// Where a stage's scales of blocks are in shared memory.
template <int kStages, int kBAtoms>
struct PairScales {
  std::uint8_t a[kStages][kAtomBytes];
  std::uint8_t b[kStages][kBAtoms * kAtomBytes];
};
struct NoScales {};

/// What follows from the tuning parameters of a kernel.
template <Tuning kTuning>
struct PairCfg {
  static constexpr tile::Input kInput = kTuning.input;
  static constexpr epilogue::Kind kEpilogue = kTuning.epilogue;
  static constexpr epilogue::Output kOutput = kTuning.output;
  static constexpr bool kNormed = kTuning.normed;
  static constexpr int kColumns = kTuning.columns;
  static constexpr int kStages = kTuning.stages;
  static constexpr int kRaster = kTuning.raster;
  static constexpr bool kBlockScaled = kInput == tile::Input::kMXFP8;
  static constexpr bool kScaled = kInput != tile::Input::kBF16 && !kBlockScaled;
  static constexpr int kShare = kColumns / 2;  // of a warp of the epilogue
  static constexpr int kSpan = pair_span(kColumns, kOutput);
  static_assert(kColumns % 64 == 0 && kColumns <= 256, "whole loads of tensor memory");
};

template <typename Cfg>
struct PairGemm {
  static constexpr int kRows = kPairRows;  // of a CTA
  static constexpr int kStages = Cfg::kStages;
  static constexpr int kEpilogueWarps = 8;
  static constexpr int kProducerWarp = kEpilogueWarps;
  static constexpr int kProductWarp = kEpilogueWarps + 1;
  static constexpr int kThreads = kPairThreads;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kStageBytes = pair_stage_bytes(Cfg::kColumns, Cfg::kInput);
  static constexpr int kAccumulators = 2;
  static constexpr int kBAtoms = pair_b_atoms(Cfg::kColumns);
  static constexpr int kAtomColumns = 4;                              // of tensor memory
  static constexpr int kScaleColumns = (1 + kBAtoms) * kAtomColumns;  // of a stage
  static constexpr int kUsedColumns =
      kAccumulators * Cfg::kColumns + (Cfg::kBlockScaled ? kStages * kScaleColumns : 0);
  static constexpr int kTensorColumns = kUsedColumns <= 128 ? 128 : kUsedColumns <= 256 ? 256 : 512;
  static constexpr std::uint16_t kBoth = 3;  // CTAs
  static constexpr bool kResidual = Cfg::kEpilogue == epilogue::Kind::kResidual;
  static constexpr int kGroupColumns = epilogue::kScaleBlock * epilogue::kScaleGroup;
  static_assert(kThreads == (kProductWarp + 1) * 32);
  static_assert(kUsedColumns <= kTensorColumns);

  using Fragment = epilogue::RowFragment<Cfg>;
  using Product = tile::UmmaPair<Cfg::kInput, Cfg::kColumns>;
  using Accumulator = typename tile::UmmaOf<Cfg::kInput>::Accumulator;
  using State = pipe::PipeState<kStages>;
  using AccumulatorState = pipe::PipeState<kAccumulators>;

  // A warp's part of a tile: 32 rows by kShare columns, in boxes of kSpan bytes.
  static constexpr int kWarpRows = 32;
  static constexpr int kSpanColumns = Cfg::kSpan / Fragment::Values::kBytes;
  static constexpr int kBoxes = Cfg::kShare / kSpanColumns;
  static constexpr int kBoxBytes = kWarpRows * Cfg::kSpan;
  static constexpr int kLoads = Cfg::kShare / Fragment::kColumns;  // of tensor memory
  static constexpr int kBoxLoads = kSpanColumns / Fragment::kColumns;
  static_assert(kBoxes * kSpanColumns == Cfg::kShare && kBoxLoads > 0);

  using KernelParams = std::conditional_t<Cfg::kBlockScaled, BlockScaledParams, Params>;
  using Scales = std::conditional_t<Cfg::kBlockScaled, PairScales<kStages, kBAtoms>, NoScales>;
  struct Storage {
    std::uint8_t a[kStages][kRows * kBlockBytes];
    std::uint8_t b[kStages][Cfg::kColumns / 2 * kBlockBytes];
    std::uint8_t staging[kEpilogueWarps][kBoxes][kBoxBytes];
    [[no_unique_address]] Scales scales;
    float columns[kEpilogueWarps][2][Cfg::kShare];  // scale or sum, bias
    pipe::PipeBarriers<kStages> stages;
    pipe::PipeBarriers<kAccumulators> accumulators;
    std::uint64_t residual[kEpilogueWarps];
    std::uint32_t tensor_memory;  // where the accumulators begin
  };
  static_assert(sizeof(Storage) <=
                pair_shared_bytes(Cfg::kColumns, kStages, Cfg::kInput, Cfg::kOutput));

  /// This CTA's part of a tile: its first token, image and column.
  struct Tile {
    std::int32_t token;
    std::int32_t image;
    std::int32_t column;
  };

  const KernelParams& p;
  const epilogue::Params& out;
  Storage& shared;
  std::uint32_t rank;  // in the pair

  __device__ __forceinline__ std::int32_t pair_rows() const { return (p.row_tiles + 1) / 2; }
  __device__ __forceinline__ std::int32_t tile_count() const {
    return pair_rows() * p.column_tiles;
  }
  static __device__ __forceinline__ std::int32_t first_tile() {
    return static_cast<std::int32_t>(blockIdx.x) / 2;
  }
  static __device__ __forceinline__ std::int32_t tile_step() {
    return static_cast<std::int32_t>(gridDim.x) / 2;
  }
  __device__ __forceinline__ Tile tile_at(std::int32_t index) const {
    TilePlace place{index / p.column_tiles, index % p.column_tiles};
    if constexpr (Cfg::kRaster != 0) {
      place = raster_place<Cfg::kRaster>(index, pair_rows(), p.column_tiles);
    }
    const std::int32_t row = place.row * 2 + static_cast<std::int32_t>(rank);
    return {row / p.image_tiles * out.box_tokens, row % p.image_tiles * out.box_images,
            place.column * Cfg::kColumns};
  }

  // The producer

  /// The first CTA expects the bytes of both.
  __device__ __forceinline__ void expect(std::uint32_t stage) {
    if (rank == 0) {
      ptx::mbarrier_arrive_expect_tx(&shared.stages.full[stage], 2 * kStageBytes);
    }
  }
  __device__ __forceinline__ void load_a(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    ptx::tma_load_3d_pair(shared.a[stage], &p.a, ptx::mapa(&shared.stages.full[stage], 0),
                          block * kBlockBytes, tile.token, tile.image);
    if constexpr (Cfg::kBlockScaled) {
      load_scales(shared.scales.a[stage], &p.a_scales, tile.token, block, stage);
    }
  }
  __device__ __forceinline__ void load_b(const Tile& tile, std::int32_t block,
                                         std::uint32_t stage) {
    const std::int32_t row = tile.column + static_cast<std::int32_t>(rank) * (Cfg::kColumns / 2);
    ptx::tma_load_3d_pair(shared.b[stage], &p.b, ptx::mapa(&shared.stages.full[stage], 0),
                          block * kBlockBytes, row, 0);
    if constexpr (Cfg::kBlockScaled) {
      load_scales(shared.scales.b[stage], &p.b_scales, tile.column, block, stage);
    }
  }
  /// The atoms from that of a row on, as many as the map's box has.
  __device__ __forceinline__ void load_scales(std::uint8_t* to, const TensorMap* map,
                                              std::int32_t row, std::int32_t block,
                                              std::uint32_t stage) {
    ptx::tma_load_3d_pair(to, map, ptx::mapa(&shared.stages.full[stage], 0), 0, 2 * block,
                          row / kAtomRows);
  }

  /// One thread. Weights do not depend on earlier grids: as many as fit are fetched before waiting.
  __device__ __forceinline__ void produce() {
    const std::int32_t early = p.k_blocks < kStages ? p.k_blocks : kStages;
    const std::int32_t count = tile_count();
    const std::int32_t first = first_tile();
    for (std::int32_t block = 0; block < early; ++block) {
      expect(block);
      load_b(tile_at(first), block, block);
    }
    pipe::wait_for_previous_grids();
    State state = State::producer_start();
    for (std::int32_t index = first; index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {
        if (index != first || block >= early) {
          ptx::mbarrier_wait_parity(&shared.stages.empty[state.stage], state.phase);
          expect(state.stage);
          load_b(tile, block, state.stage);
        }
        load_a(tile, block, state.stage);
        state.advance();
      }
    }
    // Until then the tensor cores arrive here.
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_wait_parity(&shared.stages.empty[state.stage], state.phase);
      state.advance();
    }
  }

  // The products

  /// A stage's scales to its columns of tensor memory: first A's, then those of B's tile, of which
  /// the first atom may begin with what is not the tile's.
  __device__ __forceinline__ std::uint32_t copy_scales(std::uint32_t stage) {
    const std::uint32_t to =
        shared.tensor_memory + kAccumulators * Cfg::kColumns + stage * kScaleColumns;
    ptx::tcgen05_cp_32x128b_pair(
        to, tile::umma_descriptor_atom(ptx::shared_address(shared.scales.a[stage])));
#pragma unroll
    for (int atom = 0; atom < kBAtoms; ++atom) {
      ptx::tcgen05_cp_32x128b_pair(to + (1 + atom) * kAtomColumns,
                                   tile::umma_descriptor_atom(ptx::shared_address(
                                       &shared.scales.b[stage][atom * kAtomBytes])));
    }
    return to;
  }

  /// One thread of the first CTA.
  __device__ __forceinline__ void multiply() {
    const std::uint32_t tensor_memory = shared.tensor_memory;
    const std::int32_t count = tile_count();
    State state = State::consumer_start();
    AccumulatorState turn = AccumulatorState::producer_start();
    for (std::int32_t index = first_tile(); index < count; index += tile_step()) {
      const std::int32_t column = Cfg::kBlockScaled ? tile_at(index).column : 0;
      ptx::mbarrier_wait_parity(&shared.accumulators.empty[turn.stage], turn.phase);
      ptx::tcgen05_fence_after_thread_sync();
      for (std::int32_t block = 0; block < p.k_blocks; ++block) {  // region: product loop
        ptx::mbarrier_wait_parity(&shared.stages.full[state.stage], state.phase);
        const std::uint32_t sums = tensor_memory + turn.stage * Cfg::kColumns;
        const std::uint32_t a = ptx::shared_address(shared.a[state.stage]);
        const std::uint32_t b = ptx::shared_address(shared.b[state.stage]);
        if constexpr (Cfg::kBlockScaled) {
          const std::uint32_t scales = copy_scales(state.stage);
          Product::multiply_block(sums, a, b, scales,
                                  scales + kAtomColumns + column % kAtomRows / 32, block > 0);
        } else {
          Product::multiply_block(sums, a, b, block > 0);
        }
        ptx::tcgen05_commit_multicast_pair(&shared.stages.empty[state.stage], kBoth);
        state.advance();
      }  // end region
      ptx::tcgen05_commit_multicast_pair(&shared.accumulators.full[turn.stage], kBoth);
      turn.advance();
    }
    // Until then the other CTA's warps arrive here: at the last tile's set last.
    turn.skip(kAccumulators - 1);
    ptx::mbarrier_wait_parity(&shared.accumulators.empty[turn.stage], turn.phase);
  }

  // The epilogue: a warp's part of each tile

  /// Where a part lies in the output.
  struct Part {
    std::int32_t token;
    std::int32_t image;
    std::int32_t column;
  };
  __device__ __forceinline__ Part part_of(const Tile& tile, std::int32_t warp) const {
    const std::int32_t row = warp % 4 * kWarpRows;
    const std::int32_t in_box = row / out.box_tokens;
    return {tile.token + row - in_box * out.box_tokens, tile.image + in_box,
            tile.column + warp / 4 * Cfg::kShare};
  }

  /// Scales (or sums) and biases of the part's columns: four a lane.
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
  /// The warp has read those of the tile before: it met to store the last box. It meets before it
  /// reads these, too, where a box is acquired.
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

  /// One lane, when the stores of the tile before have read the boxes.
  __device__ __forceinline__ void load_residual(const Part& part, std::int32_t warp) {
    ptx::mbarrier_arrive_expect_tx(&shared.residual[warp], kBoxes * kBoxBytes);
    for (int box = 0; box < kBoxes; ++box) {
      ptx::tma_load_3d(shared.staging[warp][box], &p.staged, &shared.residual[warp],
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

  /// The scale of a block of the output; of rows beyond it, where the last atom has some, none.
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
  /// The last group may have blocks beyond the last tile.
  __device__ __forceinline__ void fill_group(const epilogue::Row& row, const Part& part) const {
    const std::int32_t end = part.column + Cfg::kShare;
    if (end >= p.column_tiles * Cfg::kColumns) {
      for (std::int32_t block = end / Fragment::kColumns; block % epilogue::kScaleGroup != 0;
           ++block) {
        store_scale(row, block, 0);
      }
    }
  }

  /// The products of the set are in registers: to the issuing thread.
  __device__ __forceinline__ void release(std::uint32_t set, std::int32_t lane) {
    ptx::tcgen05_fence_before_thread_sync();
    if (lane == 0) {
      ptx::mbarrier_arrive_cluster(&shared.accumulators.empty[set], 0);
    }
  }

  __device__ __forceinline__ void finish(std::int32_t warp) {
    const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
    const std::uint32_t tensor_memory = shared.tensor_memory +
                                        (static_cast<std::uint32_t>(warp % 4 * kWarpRows) << 16) +
                                        warp / 4 * Cfg::kShare;
    const std::int32_t count = tile_count();
    AccumulatorState turn = AccumulatorState::consumer_start();
    std::uint32_t residual_phase = 0;
    pipe::wait_for_previous_grids();
    if (kResidual && lane == 0) {
      load_residual(part_of(tile_at(first_tile()), warp), warp);
    }
    for (std::int32_t index = first_tile(); index < count; index += tile_step()) {
      const Tile tile = tile_at(index);
      const Part part = part_of(tile, warp);
      const epilogue::Row row =
          epilogue::find_row(out, tile.token, tile.image, warp % 4 * kWarpRows + lane);
      store_columns(load_columns(part.column, lane), warp, lane);
      const auto row_scale = Fragment::load_row_scale(out, row);
      typename Fragment::Addend addends[2] = {Fragment::load_position(out, row, part.column), {}};
      if constexpr (kResidual) {
        ptx::mbarrier_wait_parity(&shared.residual[warp], residual_phase);
        residual_phase ^= 1;
      }
      ptx::mbarrier_wait_parity(&shared.accumulators.full[turn.stage], turn.phase);
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
      if (kResidual && lane == 0 && index + tile_step() < count) {
        ptx::bulk_wait_group_read<0>();
        load_residual(part_of(tile_at(index + tile_step()), warp), warp);
      }
    }
    if (lane == 0) {
      ptx::bulk_wait_group_read<0>();
    }
  }

  /// All warps: neither CTA goes, nor gives its tensor memory back, before the other needs neither.
  /// Each warp has fenced its last loads when it released their accumulators.
  static __device__ __forceinline__ void leave() {
    __syncwarp();
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
  }

  __device__ __forceinline__ void run() {
    const auto warp =
        static_cast<std::int32_t>(__shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0));
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(&p.a);
      ptx::prefetch_tensormap(&p.b);
      ptx::prefetch_tensormap(&p.staged);
      if constexpr (Cfg::kBlockScaled) {
        ptx::prefetch_tensormap(&p.a_scales);
        ptx::prefetch_tensormap(&p.b_scales);
      }
      shared.stages.init(1, 1);
      shared.accumulators.init(1, 2 * kEpilogueWarps);
      if constexpr (kResidual) {
        for (std::uint64_t& barrier : shared.residual) {
          ptx::mbarrier_init(&barrier, 1);
        }
      }
      ptx::fence_mbarrier_init();
    }
    if (warp == kProductWarp) {
      ptx::tcgen05_alloc_pair<kTensorColumns>(&shared.tensor_memory);
      ptx::tcgen05_relinquish_alloc_permit_pair();
    }
    __syncthreads();
    ptx::barrier_cluster_arrive_relaxed();
    ptx::barrier_cluster_wait();
    pipe::let_next_grid_start();
    if (warp == kProducerWarp) {
      if (ptx::elect_sync()) {
        produce();
      }
      leave();
    } else if (warp == kProductWarp) {
      if (rank == 0 && ptx::elect_sync()) {
        multiply();
      }
      leave();
      ptx::tcgen05_dealloc_pair<kTensorColumns>(shared.tensor_memory);
    } else {
      finish(warp);
      leave();
    }
  }

  /// A kernel: what one block does.
  static __device__ __forceinline__ void run_block(const KernelParams& params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    PairGemm gemm{params, params.epilogue, *reinterpret_cast<Storage*>(memory),
                  ptx::cluster_ctarank()};
    gemm.run();
  }
};

}  // namespace fovea::gemm
