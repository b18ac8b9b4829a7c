// Attention by matrix products of 16x16x16, for sm_80 and later and 16-bit elements: O =
// softmax(scale Q K^T) V, causal or not.
//
// Contract: any lengths, head dimensions that are multiples of 8 up to kColumns, strides that are
// multiples of 8 elements from 16-byte aligned addresses. Deterministic.
//
// A CTA has 16 queries of one head per warp. Blocks of keys pass through a ring of buffers: the
// next blocks are copied while one is multiplied. Tiles are small, so that several CTAs share an SM
// and hide each other's latency.
//
// The instruction wmma.load requires rows at a constant distance from each other, which swizzled
// rows are not, and leaves the layout of its fragments unspecified. So fragments here are loaded by
// ldmatrix, whose layout PTX specifies, and a product is the two mma.sync to which wmma.mma is
// compiled.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/attention/element.cuh"
#include "kernels/attention/head_rows.cuh"
#include "kernels/attention/row_tile.cuh"
#include "kernels/attention/softmax.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Constants of a kernel. `Variant` defines the type Element and the tuning parameters kTuning.
template <typename Variant>
struct MmaSmallCfg : Variant {
  using Variant::kTuning;
  static constexpr int kColumns = kTuning.head_dim;

  static constexpr int kThreads = mma_small_threads(kTuning);
  static constexpr int kRows = mma_small_rows(kTuning);
  static constexpr int kKeys = kTuning.kv_tile;
  static constexpr int kStages = kTuning.stages;
  static constexpr int kScoreSteps = kTuning.score_keys / 16;
  static constexpr bool kHeldQueries = kTuning.held_queries != 0;
  static_assert(kTuning.score_keys % 16 == 0 && kKeys % kTuning.score_keys == 0);
  static_assert(kStages >= 2, "a block is copied while another is multiplied");
  static constexpr int kColumnSteps = kColumns / 16;
  static constexpr std::size_t kSharedBytes = mma_small_shared_bytes(kTuning);
};

/// Operands of D (16, 16) += A (16, 16) B (16, 16) in the registers of a warp. A lane has rows
/// `lane / 4` and `lane / 4 + 8` of A and D, and columns `lane % 4 * 2` and the next of each eight.
struct FragmentA {
  std::uint32_t x[4];
};
struct FragmentB {
  std::uint32_t x[4];
};
struct FragmentD {
  float x[8];
};

/// Loads A from the tile, beginning with row `row` and column 16 * step.
template <typename Tile>
__device__ __forceinline__ void load(FragmentA& a, const Tile& tile, int row, int step, int lane) {
  ptx::ldmatrix_x4(a.x, tile.place(row + lane % 16, step * 2 + lane / 16));
}

/// Loads B from the same place, transposed: sixteen keys become columns.
template <typename Tile>
__device__ __forceinline__ void load_transposed(FragmentB& b, const Tile& tile, int row, int step,
                                                int lane) {
  ptx::ldmatrix_x4(b.x, tile.place(row + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
}

/// Loads B from the same place: sixteen values are rows.
template <typename Tile>
__device__ __forceinline__ void load(FragmentB& b, const Tile& tile, int row, int step, int lane) {
  ptx::ldmatrix_x4_trans(b.x, tile.place(row + lane % 16, step * 2 + lane / 16));
}

template <typename Element>
__device__ __forceinline__ void multiply_add(float* d, const FragmentA& a, const FragmentB& b) {
  auto& half = *reinterpret_cast<float(*)[2][4]>(d);
  Element::mma(half[0], a.x, b.x[0], b.x[1]);
  Element::mma(half[1], a.x, b.x[2], b.x[3]);
}

template <typename Cfg>
struct MmaSmallStorage {
  using KeyTile = RowTile<Cfg::kKeys, Cfg::kColumns>;
  RowTile<Cfg::kRows, Cfg::kColumns> queries;
  KeyTile keys[Cfg::kStages];
  KeyTile values[Cfg::kStages];
};

template <typename Cfg>
__device__ __forceinline__ void mma_small(const PortableParams& params) {
  using Element = typename Cfg::Element;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<MmaSmallStorage<Cfg>*>(memory);
  static_assert(sizeof(shared) == Cfg::kSharedBytes);
  std::uint32_t thread = threadIdx.x;
  const BlockPlace place(params, blockIdx.x);
  const int first = place.tile * Cfg::kRows;
  pipe::wait_for_previous_grids();
  pipe::let_next_grid_start();
  const HeadRows at(params, place);
  if (first >= at.queries) {
    return;
  }
  const int seen = at.seen_below(params, first + Cfg::kRows);
  /// Number of keys of the first query, if causal.
  const int first_seen = first + 1 + at.keys - at.queries;

  // Copies a block as one cp.async group, which is empty after the last block.
  const auto load_block = [&](int start) {
    if (start < seen) {
      shared.keys[start / Cfg::kKeys % Cfg::kStages].template load<Cfg::kThreads, false>(
          at.k, params.k.row, start, at.keys, params.head_dim, thread);
      shared.values[start / Cfg::kKeys % Cfg::kStages].template load<Cfg::kThreads, false>(
          at.v, params.v.row, start, at.keys, params.head_dim, thread);
    }
    ptx::cp_async_commit_group();
  };
  shared.queries.template load<Cfg::kThreads, false>(at.q, params.q.row, first, at.queries,
                                                     params.head_dim, thread);
  load_block(0);  // in one group with the queries
#pragma unroll
  for (int stage = 1; stage + 1 < Cfg::kStages; ++stage) {
    load_block(stage * Cfg::kKeys);
  }

  FragmentA held[Cfg::kHeldQueries ? Cfg::kColumnSteps : 1];
  if constexpr (Cfg::kHeldQueries) {
    ptx::cp_async_wait_group<Cfg::kStages - 2>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < Cfg::kColumnSteps; ++step) {
      load(held[step], shared.queries, static_cast<int>(thread / 32) * 16, step,
           static_cast<int>(thread % 32));
    }
  }
  FragmentD o[Cfg::kColumnSteps] = {};
  RowPair max{{kMinusInfinity, kMinusInfinity}};
  RowPair sum{};
#pragma unroll 1
  for (int block = 0; block < seen; block += Cfg::kKeys) {
    ptx::cp_async_wait_group<Cfg::kStages - 2>();
    __syncthreads();  // this block has arrived, and the previous one has been read
    // Addresses are recomputed for each block, because they would occupy registers.
    thread = ptx::read_tid_x();
    load_block(block + (Cfg::kStages - 1) * Cfg::kKeys);
    // The block is processed in parts, because the scores of all its keys do not fit in registers.
    constexpr int kPart = Cfg::kScoreSteps * 16;
#pragma unroll 1
    for (int start = block; start < min(seen, block + Cfg::kKeys); start += kPart) {
      thread = ptx::read_tid_x();
      const int lane = static_cast<int>(thread % 32);
      const int warp_row = static_cast<int>(thread / 32) * 16;
      const int causal_keys = first_seen + warp_row - start;
      const auto& keys = shared.keys[start / Cfg::kKeys % Cfg::kStages];
      const auto& values = shared.values[start / Cfg::kKeys % Cfg::kStages];
      const int place_in_block = start % Cfg::kKeys;
      float scores[Cfg::kScoreSteps * 8] = {};
#pragma unroll
      for (int step = 0; step < Cfg::kColumnSteps; ++step) {
        FragmentA q;
        if constexpr (Cfg::kHeldQueries) {
          q = held[step];
        } else {
          load(q, shared.queries, warp_row, step, lane);
        }
#pragma unroll
        for (int part = 0; part < Cfg::kScoreSteps; ++part) {
          FragmentB k;
          load_transposed(k, keys, place_in_block + part * 16, step, lane);
          multiply_add<Element>(&scores[part * 8], q, k);
        }
      }
      if (params.causal != 0 && causal_keys < kPart) {
        mask_causal(scores, causal_keys, lane);
      }
      if (at.keys - start < kPart) {
        mask_tail<0>(scores, at.keys - start, lane);
      }
      const RowPair rescale = online_softmax(scores, params.scale_log2, max, sum);
#pragma unroll
      for (int i = 0; i < Cfg::kColumnSteps * 8; ++i) {
        o[i / 8].x[i % 8] *= rescale.row[i / 2 % 2];
      }
      thread = ptx::read_tid_x();
      const int value_lane = static_cast<int>(thread % 32);
      std::uint32_t p[Cfg::kScoreSteps][4];
      pack<Element>(scores, p);
#pragma unroll
      for (int part = 0; part < Cfg::kScoreSteps; ++part) {
        const FragmentA probabilities{{p[part][0], p[part][1], p[part][2], p[part][3]}};
#pragma unroll
        for (int step = 0; step < Cfg::kColumnSteps; ++step) {
          FragmentB v;
          load(v, values, place_in_block + part * 16, step, value_lane);
          multiply_add<Element>(o[step].x, probabilities, v);
        }
      }
    }
  }

  // Recomputed, because it would occupy registers during the loop.
  const BlockPlace end_place(params, ptx::read_ctaid_x());
  const HeadRows end(params, end_place);
  thread = ptx::read_tid_x();
  const int lane = static_cast<int>(thread % 32);
  const int row = end_place.tile * Cfg::kRows + static_cast<int>(thread / 32) * 16;
  const float inverse[2] = {inverse_of(quad_sum(sum.row[0])), inverse_of(quad_sum(sum.row[1]))};
#pragma unroll
  for (int i = 0; i < Cfg::kColumnSteps * 4; ++i) {
    const int r = row + lane / 4 + i % 2 * 8;
    const int column = i / 2 * 8 + lane % 4 * 2;
    if (r < end.queries && column < params.head_dim) {
      const float* const x = &o[i / 4].x[i % 4 * 2];
      store_pair<Element>(params, end.output + r * params.o.row + column, x[0] * inverse[i % 2],
                          x[1] * inverse[i % 2]);
    }
  }
}

}  // namespace fovea::attention
