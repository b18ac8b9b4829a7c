// Attention by mma.sync, for sm_80 and later and 16-bit elements: O = softmax(scale Q K^T) V,
// causal or not. Ampere and Ada run it, and Hopper runs it for operands that TMA cannot load.
//
// Contract: any lengths, head dimensions that are multiples of 8 up to kColumns, strides that are
// multiples of 8 elements from 16-byte aligned addresses. Deterministic.
//
//   block = kRowGroups x kKeyGroups warps      keys of the head, in blocks of kKeys:
//   each warp: kWarpRows queries, and the         0 1 2 3 0 1 2 3 ...   (of key group)
//   blocks of its key group; each key group    kStages blocks of a group are on chip or under way;
//   has its own ring, filled by its own warps  its warps meet once for each
//
// A warp has 32 queries if that suffices to fill the GPU: each fragment of K or V from shared
// memory is then used for two tiles of queries. It has 16 queries where more concurrent warps
// matter more. Several key groups are used when there are too few queries for all SMs; their
// partial sums are combined in shared memory at the end.
//
// The code for a block of keys has no branches, so that the compiler can interleave the products of
// one tile with the exponentials of the other.
//
// Registers: S (kWarpRows, kKeys) f32, later P; O (kWarpRows, kColumns) f32; Q if it fits.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/attention/element.cuh"
#include "kernels/attention/head_rows.cuh"
#include "kernels/attention/row_tile.cuh"
#include "kernels/attention/softmax.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/pipe/group_barrier.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/matrix.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Constants of a kernel. `Variant` defines the type Element and the tuning parameters kTuning.
template <typename Variant>
struct MmaCfg : Variant {
  using Variant::kTuning;
  static constexpr int kColumns = kTuning.head_dim;
  static constexpr int kRowGroups = kTuning.row_groups;
  static constexpr int kKeyGroups = kTuning.key_groups;
  static constexpr int kKeys = kTuning.kv_tile;
  static constexpr int kStages = kTuning.stages;

  static constexpr int kWarpRows = kTuning.warp_rows;
  static constexpr int kRowTiles = kWarpRows / 16;
  static constexpr int kRows = kRowGroups * kWarpRows;   // query rows per block
  static constexpr int kGroupThreads = kRowGroups * 32;  // threads per key group
  static constexpr int kThreads = kGroupThreads * kKeyGroups;
  static constexpr std::size_t kSharedBytes = mma_shared_bytes(kTuning);
  static constexpr int kColumnSteps = kColumns / 16;
  static constexpr int kKeySteps = kKeys / 16;
  static constexpr int kFewKeySteps = mma_few_keys(kTuning) / 16;
  /// Whether Q stays in registers; otherwise it is read again for each block of keys.
  static constexpr bool kQueriesStay = kColumns <= 64 && kWarpRows * kKeys <= 2048;
  static_assert(kColumns % 16 == 0 && kKeys % 16 == 0 && kStages >= 2);
};

/// Partial results of one key group, before the groups are combined.
template <typename Cfg>
struct MmaPartial {
  float o[Cfg::kRows][Cfg::kColumns + 8];  // padded so that rows begin at different banks
  float max[Cfg::kRows];
  float sum[Cfg::kRows];
};

/// A block of keys and their values.
template <typename Cfg>
struct MmaStage {
  RowTile<Cfg::kKeys, Cfg::kColumns> keys;
  RowTile<Cfg::kKeys, Cfg::kColumns> values;
};

/// The head and queries that a block works on, as needed in the loop over the keys.
struct MmaHead {
  const std::uint8_t* k;
  const std::uint8_t* v;
  int keys;
  int queries;
  int first;   // first query of the block
  int blocks;  // number of key blocks that at least one of these queries attends to
  /// Number of key blocks that belong to `group`, one of `groups` key groups.
  __device__ __forceinline__ int blocks_of(int group, int groups) const {
    return (blocks - group + groups - 1) / groups;
  }
};

template <typename Cfg>
struct MmaStorage {
  RowTile<Cfg::kRows, Cfg::kColumns> queries;
  MmaStage<Cfg> stages[Cfg::kKeyGroups][Cfg::kStages];
  MmaHead head;

  /// The partial results of a group, which overwrite its ring.
  __device__ __forceinline__ MmaPartial<Cfg>& partial(int group) {
    static_assert(sizeof(MmaPartial<Cfg>) <= sizeof(stages[0]) || Cfg::kKeyGroups == 1);
    return *reinterpret_cast<MmaPartial<Cfg>*>(&stages[group]);
  }
};

/// A warp's rows in registers. The maxima are multiplied by scale_log2.
template <typename Cfg>
struct MmaRows {
  std::uint32_t q[Cfg::kRowTiles][Cfg::kQueriesStay ? Cfg::kColumnSteps : 1][4];
  float o[Cfg::kRowTiles][Cfg::kColumns / 8][4];
  RowPair max[Cfg::kRowTiles];
  /// Sums of the probabilities, computed as P times a column of ones; elements 0 and 2 are valid.
  float sum[Cfg::kRowTiles][4];
};

/// Computes S (kWarpRows, 16 kSteps) = Q K^T.
template <typename Cfg, int kSteps>
__device__ __forceinline__ void scores(float (&s)[Cfg::kRowTiles][kSteps * 8], MmaRows<Cfg>& rows,
                                       const MmaStorage<Cfg>& shared, const MmaStage<Cfg>& stage,
                                       int row, int lane) {
#pragma unroll
  for (int i = 0; i < Cfg::kRowTiles * kSteps * 8; ++i) {
    s[i / (kSteps * 8)][i % (kSteps * 8)] = 0.0F;
  }
  const BlockPlaces q_places(shared.queries, row + lane % 16, lane / 16);
  const BlockPlaces k_places(stage.keys, lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
  for (int step = 0; step < Cfg::kColumnSteps; ++step) {
    const int held = Cfg::kQueriesStay ? step : 0;
    if constexpr (!Cfg::kQueriesStay) {
#pragma unroll
      for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
        ptx::ldmatrix_x4(rows.q[tile][0], q_places.at(tile, step));
      }
    }
#pragma unroll
    for (int pair = 0; pair < kSteps; ++pair) {
      std::uint32_t k[4];
      ptx::ldmatrix_x4(k, k_places.at(pair, step));
#pragma unroll
      for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
        auto& halves = *reinterpret_cast<float(*)[2][4]>(&s[tile][pair * 8]);
        Cfg::Element::mma(halves[0], rows.q[tile][held], k[0], k[1]);
        Cfg::Element::mma(halves[1], rows.q[tile][held], k[2], k[3]);
      }
    }
  }
}

/// Computes O (kWarpRows, kColumns) += P V, and adds the sums of the rows of P to rows.sum.
template <typename Cfg, int kSteps>
__device__ __forceinline__ void add_output(MmaRows<Cfg>& rows,
                                           const std::uint32_t (&p)[Cfg::kRowTiles][kSteps][4],
                                           const MmaStage<Cfg>& stage, int lane) {
  const BlockPlaces places(stage.values, lane % 16, lane / 16);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int pair = 0; pair < Cfg::kColumnSteps; ++pair) {
      std::uint32_t v[4];
      ptx::ldmatrix_x4_trans(v, places.at(step, pair));
#pragma unroll
      for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
        Cfg::Element::mma(rows.o[tile][pair * 2], p[tile][step], v[0], v[1]);
        Cfg::Element::mma(rows.o[tile][pair * 2 + 1], p[tile][step], v[2], v[3]);
      }
    }
    // One matrix product replaces eight additions.
#pragma unroll
    for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
      Cfg::Element::mma(rows.sum[tile], p[tile][step], Cfg::Element::kOnes, Cfg::Element::kOnes);
    }
  }
}

/// Divides a warp's rows by their sums and writes them to the output, staged in the shared memory
/// of the warp's own queries.
template <typename Cfg>
__device__ __forceinline__ void write_rows(const PortableParams& params, const HeadRows& head_rows,
                                           MmaRows<Cfg>& rows, MmaStorage<Cfg>& shared,
                                           int warp_row, int row, int lane) {
  using Element = typename Cfg::Element;
  __syncwarp();  // stores must not overtake the ldmatrix of other lanes, which read the queries
#pragma unroll
  for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
    const float inverse[2] = {inverse_of(rows.sum[tile][0]), inverse_of(rows.sum[tile][2])};
#pragma unroll
    for (int i = 0; i < Cfg::kColumns / 4; ++i) {
      const int r = tile * 16 + lane / 4 + i % 2 * 8;
      const float low = rows.o[tile][i / 2][i % 2 * 2] * inverse[i % 2];
      const float high = rows.o[tile][i / 2][i % 2 * 2 + 1] * inverse[i % 2];
      ptx::st_shared(shared.queries.place(warp_row + r, i / 2) + lane % 4 * 4,
                     Element::pack(low, high));
    }
  }
  __syncwarp();
  constexpr int kUnits = Cfg::kColumns / 8;
#pragma unroll
  for (int i = lane; i < Cfg::kWarpRows * kUnits; i += 32) {
    const int r = i / kUnits;
    const int unit = i % kUnits;
    if (row + r < head_rows.queries && unit * 8 < params.head_dim) {
      const uint4 x = ptx::ld_shared_v4(shared.queries.place(warp_row + r, unit));
      ptx::st_global_v4(
          params.o.data + (head_rows.output + (row + r) * params.o.row + unit * 8) * 2, x.x, x.y,
          x.z, x.w);
    }
  }
}

/// Combines the results of the key groups and writes them, from row `first` of the head on. All
/// threads of the block call it.
template <typename Cfg>
__device__ __forceinline__ void join_groups(const PortableParams& params, const HeadRows& head_rows,
                                            const MmaRows<Cfg>& rows, MmaStorage<Cfg>& shared,
                                            int group, int warp_row, int first, int lane) {
  MmaPartial<Cfg>& partial_of_group = shared.partial(group);
#pragma unroll
  for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = warp_row + tile * 16 + half * 8 + lane / 4;
#pragma unroll
      for (int i = 0; i < Cfg::kColumns / 8; ++i) {
        *reinterpret_cast<float2*>(&partial_of_group.o[r][i * 8 + lane % 4 * 2]) =
            make_float2(rows.o[tile][i][half * 2], rows.o[tile][i][half * 2 + 1]);
      }
      if (lane % 4 == 0) {
        partial_of_group.max[r] = rows.max[tile].row[half];
        partial_of_group.sum[r] = rows.sum[tile][half * 2];
      }
    }
  }
  __syncthreads();
  constexpr int kUnits = Cfg::kColumns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Cfg::kRows * kUnits; i += Cfg::kThreads) {
    const int r = i / kUnits;
    const int unit = i % kUnits;
    float max = kMinusInfinity;
#pragma unroll
    for (int g = 0; g < Cfg::kKeyGroups; ++g) {
      max = fmaxf(max, shared.partial(g).max[r]);
    }
    const float shift = max == kMinusInfinity ? 0.0F : max;
    float sum = 0.0F;
    // Four neighbouring units would use the same banks as the next four, so every other group of
    // four reads its halves in the opposite order.
    const bool swapped = (unit & 4) != 0;
    float halves[2][4] = {};
#pragma unroll
    for (int g = 0; g < Cfg::kKeyGroups; ++g) {
      const MmaPartial<Cfg>& part = shared.partial(g);
      const float factor = ptx::ex2_approx(part.max[r] - shift);
      sum += factor * part.sum[r];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int column = unit * 8 + ((half != 0) != swapped ? 4 : 0);
        const float4 o = *reinterpret_cast<const float4*>(&part.o[r][column]);
        halves[half][0] += factor * o.x;
        halves[half][1] += factor * o.y;
        halves[half][2] += factor * o.z;
        halves[half][3] += factor * o.w;
      }
    }
    if (first + r < head_rows.queries && unit * 8 < params.head_dim) {
      const float inverse = inverse_of(sum);
      float x[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        x[c] = (swapped ? halves[1 - c / 4][c % 4] : halves[c / 4][c % 4]) * inverse;
      }
      store_unit<typename Cfg::Element>(
          params, head_rows.output + (first + r) * params.o.row + unit * 8, x);
    }
  }
}

template <typename Cfg>
__device__ __forceinline__ void mma_attention(const PortableParams& params) {
  using Element = typename Cfg::Element;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<MmaStorage<Cfg>*>(memory);
  static_assert(sizeof(shared) == Cfg::kSharedBytes);
  // The first row of the warp, recomputed wherever it is needed, to save registers.
  const auto warp_row = [] {
    return static_cast<int>(ptx::read_tid_x() / 32) % Cfg::kRowGroups * Cfg::kWarpRows;
  };
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  const int group = Cfg::kKeyGroups == 1 ? 0 : warp / Cfg::kRowGroups;
  // Synchronises the threads of the key group.
  const auto meet = [&] {
    if constexpr (Cfg::kKeyGroups == 1) {
      __syncthreads();
    } else if constexpr (Cfg::kRowGroups == 1) {
      __syncwarp();
    } else {
      pipe::GroupBarrier<Cfg::kGroupThreads>(group).sync();
    }
  };

  const BlockPlace place(params, blockIdx.x);
  const int first = place.tile * Cfg::kRows;
  pipe::wait_for_previous_grids();
  pipe::let_next_grid_start();
  const HeadRows head_rows(params, place);
  if (first >= head_rows.queries) {
    return;
  }
  const int seen_keys = max(head_rows.seen_below(params, first + Cfg::kRows), 0);
  const MmaHead own_head{head_rows.k,       head_rows.v, head_rows.keys,
                         head_rows.queries, first,       (seen_keys + Cfg::kKeys - 1) / Cfg::kKeys};
  if (threadIdx.x == 0) {
    shared.head = own_head;  // read from there after the next barrier, which saves registers
  }

  // Copies a block as one cp.async group, which is empty after the last block.
  const auto load_block = [&](int i, const MmaHead& head) {
    const int start = (i * Cfg::kKeyGroups + group) * Cfg::kKeys;
    MmaStage<Cfg>& stage = shared.stages[group][i % Cfg::kStages];
    const std::uint32_t group_thread = ptx::read_tid_x() % Cfg::kGroupThreads;
    if (i < head.blocks_of(group, Cfg::kKeyGroups)) {
      stage.keys.template load<Cfg::kGroupThreads>(head.k, params.k.row, start, head.keys,
                                                   params.head_dim, group_thread);
      stage.values.template load<Cfg::kGroupThreads>(head.v, params.v.row, start, head.keys,
                                                     params.head_dim, group_thread);
    }
    ptx::cp_async_commit_group();
  };
  shared.queries.template load<Cfg::kThreads>(head_rows.q, params.q.row, first, head_rows.queries,
                                              params.head_dim, threadIdx.x);
  ptx::cp_async_commit_group();
#pragma unroll
  for (int i = 0; i < Cfg::kStages; ++i) {
    load_block(i, own_head);
  }

  MmaRows<Cfg> rows;
#pragma unroll
  for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
    rows.max[tile] = {{kMinusInfinity, kMinusInfinity}};
#pragma unroll
    for (int i = 0; i < Cfg::kColumns / 2; ++i) {
      rows.o[tile][i / 4][i % 4] = 0.0F;
    }
#pragma unroll
    for (float& sum : rows.sum[tile]) {
      sum = 0.0F;
    }
  }
  ptx::cp_async_wait_group<Cfg::kStages>();
  __syncthreads();
  if constexpr (Cfg::kQueriesStay) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const BlockPlaces places(shared.queries, warp_row() + lane % 16, lane / 16);
#pragma unroll
    for (int i = 0; i < Cfg::kRowTiles * Cfg::kColumnSteps; ++i) {
      ptx::ldmatrix_x4(rows.q[i / Cfg::kColumnSteps][i % Cfg::kColumnSteps],
                       places.at(i / Cfg::kColumnSteps, i % Cfg::kColumnSteps));
    }
  }

  // Processes the first 16 kSteps keys of a block. With kEdge, only `tail` keys of the block exist,
  // and the warp's first row attends to keys below `causal_keys`.
  const auto attend = [&]<int kSteps, bool kEdge>(const MmaStage<Cfg>& stage, int tail,
                                                  int causal_keys) {
    // Addresses are recomputed for each block, because they would occupy registers.
    const int lane = static_cast<int>(ptx::read_tid_x() % 32);
    float s[Cfg::kRowTiles][kSteps * 8];
    std::uint32_t p[Cfg::kRowTiles][kSteps][4];
    scores<Cfg, kSteps>(s, rows, shared, stage, warp_row(), lane);
#pragma unroll
    for (int tile = 0; tile < Cfg::kRowTiles; ++tile) {
      if constexpr (kEdge) {
        const int row = tile * 16 + lane / 4;
        mask_rows(s[tile], {min(tail, causal_keys + row), min(tail, causal_keys + row + 8)}, lane);
      }
      const RowPair shift = raise_maxima<true>(
          row_max(s[tile]), params.scale_log2, rows.max[tile], [&](const RowPair& factors) {
#pragma unroll
            for (int i = 0; i < Cfg::kColumns / 2; ++i) {
              rows.o[tile][i / 4][i % 4] *= factors.row[i / 2 % 2];
            }
            rows.sum[tile][0] *= factors.row[0];
            rows.sum[tile][2] *= factors.row[1];
          });
      take_probabilities(s[tile], params.scale_log2, shift);
      pack<Element>(s[tile], p[tile]);
    }
    add_output<Cfg, kSteps>(rows, p, stage, lane);
  };

  // All groups make as many iterations as the first one, which has the most blocks; keys beyond the
  // last block are skipped below.
  for (int i = 0; i < shared.head.blocks_of(0, Cfg::kKeyGroups); ++i) {
    if (i == 0) {
      ptx::cp_async_wait_group<Cfg::kStages - 1>();
    } else {
      ptx::cp_async_wait_group<Cfg::kStages - 2>();
    }
    meet();  // block i has arrived, and block i - 1 has been read
    if (i != 0) {
      load_block(i - 1 + Cfg::kStages, shared.head);
    }
    const MmaHead& head = shared.head;
    const MmaStage<Cfg>& stage = shared.stages[group][i % Cfg::kStages];
    // `tail`: number of keys from this block on, 0 for a warp without queries; `causal_keys`: how
    // many of them the warp's first row attends to.
    const int start = (i * Cfg::kKeyGroups + group) * Cfg::kKeys;
    const int row = head.first + warp_row();
    const int tail = row < head.queries ? head.keys - start : 0;
    const int causal_keys =
        params.causal != 0 ? row + 1 + head.keys - head.queries - start : Cfg::kKeys;
    const int seen = min(tail, causal_keys + Cfg::kWarpRows - 1);
    if (tail >= Cfg::kKeys && causal_keys >= Cfg::kKeys) {
      attend.template operator()<Cfg::kKeySteps, false>(stage, tail, causal_keys);
    } else if (seen > Cfg::kFewKeySteps * 16) {
      attend.template operator()<Cfg::kKeySteps, true>(stage, tail, causal_keys);
    } else if (seen > 0) {
      attend.template operator()<Cfg::kFewKeySteps, true>(stage, tail, causal_keys);
    }
  }

  const int lane = static_cast<int>(ptx::read_tid_x() % 32);
  const BlockPlace end_place(params, ptx::read_ctaid_x());
  const HeadRows end(params, end_place);
  const int end_first = end_place.tile * Cfg::kRows;
  if constexpr (Cfg::kKeyGroups == 1) {
    write_rows<Cfg>(params, end, rows, shared, warp_row(), end_first + warp_row(), lane);
  } else {
    meet();  // all copies have arrived, so the ring can be overwritten with the group's results
    join_groups<Cfg>(params, end, rows, shared, group, warp_row(), end_first, lane);
  }
}

}  // namespace fovea::attention
