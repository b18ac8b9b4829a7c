// Attention by multiply-adds in f32, for sm_80 and later: O = softmax(scale Q K^T) V, causal or
// not. A plain implementation without tensor cores.
//
// Contract: any lengths, head dimensions that are multiples of 8 up to kColumns, strides that are
// multiples of 8 elements from 16-byte aligned addresses. Deterministic.
//
// A block has 64 queries of one head, 4 per warp, and processes the keys in tiles of 64. A lane has
// two keys for Q K^T, and two of each 64 columns for P V; in between, the probabilities of a warp's
// rows pass through shared memory that only this warp uses.
//
//   tiles in the ring: K0 V0 K1 V1 ...; while one is multiplied, kStages - 1 are being copied
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/attention/element.cuh"
#include "kernels/attention/head_rows.cuh"
#include "kernels/attention/row_tile.cuh"
#include "kernels/attention/softmax.cuh"
#include "kernels/pipe/grid.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/warp.cuh"

namespace fovea::attention {

/// Constants of a kernel. `Variant` defines the type Element and the tuning parameters kTuning.
template <typename Variant>
struct ScalarCfg : Variant {
  using Variant::kTuning;
  static constexpr int kColumns = kTuning.head_dim;
  static constexpr int kStages = kTuning.stages;

  static constexpr int kThreads = kScalarThreads;
  static constexpr int kRegisters = 72;  // registers per thread
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kRows = kTileRows;  // queries per block, and keys per tile
  static constexpr int kWarpRows = kRows / kWarps;
  /// Groups of 64 columns; a lane has two columns of each.
  static constexpr int kSpans = kColumns / 64;
  static constexpr std::size_t kSharedBytes = scalar_shared_bytes(kTuning);
  static_assert(kColumns % 64 == 0 && kRows == 64 && kWarpRows % 4 == 0);
};

template <typename Cfg>
struct ScalarStorage {
  using Tile = RowTile<Cfg::kRows, Cfg::kColumns>;
  Tile queries;
  Tile ring[Cfg::kStages];
  float probabilities[Cfg::kRows][Cfg::kRows];  // (query, key) for the current tile of keys
  // The addresses of the head's first rows, and the number of keys; they are kept here because the
  // products need all registers.
  const std::uint8_t* k;
  const std::uint8_t* v;
  int keys;
  int first_seen;  // number of keys of the block's first query, if causal
};

/// A lane's part of its warp's rows, in registers.
template <typename Cfg>
struct ScalarRows {
  float s[Cfg::kWarpRows][2];                // scores of keys `lane` and `lane + 32`
  float o[Cfg::kWarpRows][Cfg::kSpans * 2];  // columns 2 * lane and the next, of each span
  float max[Cfg::kWarpRows];
  float sum[Cfg::kWarpRows];  // sum over this lane's keys only
};

/// Eight columns of a row, still packed in pairs.
struct Unit {
  std::uint32_t two[4];
  __device__ __forceinline__ explicit Unit(std::uint32_t place) {
    const uint4 x = ptx::ld_shared_v4(place);
    two[0] = x.x;
    two[1] = x.y;
    two[2] = x.z;
    two[3] = x.w;
  }
};

/// Computes the scores of the warp's rows, which begin with `warp_row`, and the tile's keys, eight
/// columns at a time.
template <typename Cfg>
__device__ __forceinline__ void scalar_scores(ScalarRows<Cfg>& rows,
                                              const ScalarStorage<Cfg>& shared,
                                              const typename ScalarStorage<Cfg>::Tile& keys,
                                              int warp_row, int lane) {
  using Element = typename Cfg::Element;
#pragma unroll
  for (auto& row : rows.s) {
    row[0] = 0.0F;
    row[1] = 0.0F;
  }
#pragma unroll 1
  for (int unit = 0; unit < Cfg::kColumns / 8; ++unit) {
    const Unit k[2] = {Unit(keys.place(lane, unit)), Unit(keys.place(lane + 32, unit))};
#pragma unroll
    for (int row = 0; row < Cfg::kWarpRows; ++row) {
      const Unit q(shared.queries.place(warp_row + row, unit));
      if (row > 0) {
        // Otherwise the compiler loads all rows at once, which takes too many registers.
        ptx::compiler_fence();
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int key = i % 2;
        const std::uint32_t a = q.two[i / 2];
        const std::uint32_t b = k[key].two[i / 2];
        rows.s[row][key] = fmaf(Element::low(a), Element::low(b), rows.s[row][key]);
        rows.s[row][key] = fmaf(Element::high(a), Element::high(b), rows.s[row][key]);
      }
    }
  }
}

/// Turns the scores into probabilities in shared memory, and rescales the previous sums. Row `r`
/// attends to the tile's keys below min(tail, causal_keys + r), or below `tail` if not causal.
/// Before the probabilities are read, and again before they are overwritten, the block passes the
/// barrier of the next tile.
template <typename Cfg>
__device__ __forceinline__ void scalar_softmax(const PortableParams& params, ScalarRows<Cfg>& rows,
                                               ScalarStorage<Cfg>& shared, int warp_row, int tail,
                                               int causal_keys, int lane) {
#pragma unroll
  for (int row = 0; row < Cfg::kWarpRows; ++row) {
    const int seen = params.causal != 0 ? min(tail, causal_keys + row) : tail;
    float x[2] = {lane < seen ? rows.s[row][0] * params.scale_log2 : kMinusInfinity,
                  lane + 32 < seen ? rows.s[row][1] * params.scale_log2 : kMinusInfinity};
    float max = fmaxf(rows.max[row], fmaxf(x[0], x[1]));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, distance));
    }
    // For a row that has seen no key yet the maximum is -inf, which must not be subtracted.
    const float shift = max == kMinusInfinity ? 0.0F : max;
    const float rescale = ptx::ex2_approx(rows.max[row] - shift);
    rows.max[row] = max;
    rows.sum[row] *= rescale;
#pragma unroll
    for (float& value : rows.o[row]) {
      value *= rescale;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[i] = ptx::ex2_approx(x[i] - shift);
      rows.sum[row] += x[i];
      shared.probabilities[warp_row + row][lane + i * 32] = x[i];
    }
  }
}

/// Computes O += P V, four keys at a time.
template <typename Cfg>
__device__ __forceinline__ void scalar_output(ScalarRows<Cfg>& rows,
                                              const ScalarStorage<Cfg>& shared,
                                              const typename ScalarStorage<Cfg>::Tile& values,
                                              int warp_row, int lane) {
  using Element = typename Cfg::Element;
  constexpr int kStep = 4;
#pragma unroll 1
  for (int key = 0; key < Cfg::kRows; key += kStep) {
    float v[kStep][Cfg::kSpans * 2];
#pragma unroll
    for (int i = 0; i < kStep * Cfg::kSpans; ++i) {
      const int span = i % Cfg::kSpans;
      const std::uint32_t two =
          ptx::ld_shared(values.place(key + i / Cfg::kSpans, span * 8 + lane / 4) + lane % 4 * 4);
      v[i / Cfg::kSpans][span * 2] = Element::low(two);
      v[i / Cfg::kSpans][span * 2 + 1] = Element::high(two);
    }
#pragma unroll
    for (int row = 0; row < Cfg::kWarpRows; ++row) {
      const float4 p = *reinterpret_cast<const float4*>(&shared.probabilities[warp_row + row][key]);
      const float probabilities[kStep] = {p.x, p.y, p.z, p.w};
#pragma unroll
      for (int i = 0; i < kStep; ++i) {
#pragma unroll
        for (int column = 0; column < Cfg::kSpans * 2; ++column) {
          rows.o[row][column] = fmaf(probabilities[i], v[i][column], rows.o[row][column]);
        }
      }
    }
  }
}

template <typename Cfg>
__device__ __forceinline__ void scalar_write(const PortableParams& params,
                                             const HeadRows& head_rows, ScalarRows<Cfg>& rows,
                                             int row, int lane) {
#pragma unroll
  for (int r = 0; r < Cfg::kWarpRows; ++r) {
    float sum = rows.sum[r];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, distance);
    }
    const float inverse = inverse_of(sum);
#pragma unroll
    for (int span = 0; span < Cfg::kSpans; ++span) {
      const int column = span * 64 + lane * 2;
      if (row + r < head_rows.queries && column < params.head_dim) {
        store_pair<typename Cfg::Element>(
            params, head_rows.output + (row + r) * params.o.row + column,
            rows.o[r][span * 2] * inverse, rows.o[r][span * 2 + 1] * inverse);
      }
    }
  }
}

template <typename Cfg>
__device__ __forceinline__ void scalar(const PortableParams& params) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ScalarStorage<Cfg>*>(memory);
  static_assert(sizeof(shared) == Cfg::kSharedBytes);
  std::uint32_t thread = threadIdx.x;
  const BlockPlace place(params, blockIdx.x);
  const int first = place.tile * Cfg::kRows;
  pipe::wait_for_previous_grids();
  pipe::let_next_grid_start();
  const HeadRows head_rows(params, place);
  if (first >= head_rows.queries) {
    return;
  }
  const int blocks =
      (max(head_rows.seen_below(params, first + Cfg::kRows), 0) + Cfg::kRows - 1) / Cfg::kRows;

  // Copies a tile as one cp.async group, which is empty after the last tile.
  const auto load_tile = [&](int tile, const std::uint8_t* from, int keys) {
    if (tile / 2 < blocks) {
      shared.ring[tile % Cfg::kStages].template load<Cfg::kThreads>(
          from, tile % 2 == 0 ? params.k.row : params.v.row, tile / 2 * Cfg::kRows, keys,
          params.head_dim, thread);
    }
    ptx::cp_async_commit_group();
  };
  shared.queries.template load<Cfg::kThreads>(head_rows.q, params.q.row, first, head_rows.queries,
                                              params.head_dim, thread);
#pragma unroll
  for (int tile = 0; tile < Cfg::kStages - 1; ++tile) {
    load_tile(tile, tile % 2 == 0 ? head_rows.k : head_rows.v,
              head_rows.keys);  // the first tile is in one group with the queries
  }
  if (threadIdx.x == 0) {
    shared.k = head_rows.k;
    shared.v = head_rows.v;
    shared.keys = head_rows.keys;
    shared.first_seen = first + 1 + head_rows.keys - head_rows.queries;
  }
  // Waits for a tile, and starts to copy a later one over the previous tile, which all warps have
  // read.
  const auto next_tile = [&](int tile) -> const auto& {
    ptx::cp_async_wait_group<Cfg::kStages - 2>();
    __syncthreads();
    // Addresses are recomputed for each tile, because they would occupy registers.
    thread = ptx::read_tid_x();
    const int next = tile + Cfg::kStages - 1;
    load_tile(next, next % 2 == 0 ? shared.k : shared.v, shared.keys);
    thread = ptx::read_tid_x();
    return shared.ring[tile % Cfg::kStages];
  };

  ScalarRows<Cfg> rows;
#pragma unroll
  for (int r = 0; r < Cfg::kWarpRows; ++r) {
    rows.max[r] = kMinusInfinity;
    rows.sum[r] = 0.0F;
#pragma unroll
    for (float& x : rows.o[r]) {
      x = 0.0F;
    }
  }
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    const int start = block * Cfg::kRows;
    const auto warp_row = [&] { return static_cast<int>(thread / 32) * Cfg::kWarpRows; };
    scalar_scores<Cfg>(rows, shared, next_tile(block * 2), warp_row(),
                       static_cast<int>(thread % 32));
    scalar_softmax<Cfg>(params, rows, shared, warp_row(), shared.keys - start,
                        shared.first_seen + warp_row() - start, static_cast<int>(thread % 32));
    scalar_output<Cfg>(rows, shared, next_tile(block * 2 + 1), warp_row(),
                       static_cast<int>(thread % 32));
  }
  // Recomputed, because it would occupy registers during the loop.
  const BlockPlace end_place(params, ptx::read_ctaid_x());
  const HeadRows end(params, end_place);
  thread = ptx::read_tid_x();
  scalar_write<Cfg>(params, end, rows,
                    end_place.tile * Cfg::kRows + static_cast<int>(thread / 32) * Cfg::kWarpRows,
                    static_cast<int>(thread % 32));
}

}  // namespace fovea::attention
