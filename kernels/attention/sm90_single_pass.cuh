// Attention over short sequences, for sm_90a and 16-bit elements: O = softmax(scale Q K^T) V.
//
// All keys of a head are in shared memory at once, so each row needs one softmax and no rescaling.
// Contract: Cfg::kKeys - 8 < keys <= Cfg::kKeys, not causal; any number of queries, heads and
// images; strides are those of the tensor maps. Deterministic; O may share Q's memory.
//
//   producer warp --- K, V of a head ---> ring of key tiles --+
//        |  ^ ^                                               v
//        |  | +------- empty: 4 warps x tiles of the item --- 3 consumer warpgroups (tile % 3):
//        |  +--------- empty: stored (4 warps) -------------- S = Q K^T (registers), softmax,
//        +-- Q, 64 rows a tile -> ring of query tiles ------> O = P V, staged over Q, TMA
//
// The warpgroups drift apart until one multiplies while the others compute exponentials.
//
// Shared memory: kKeySlots key or value tiles and kTileSlots query tiles. Registers per thread: 24
// for a producer, 160 or 240 for a consumer, kKeys / 2 of them for S.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_params.hpp"
#include "kernels/attention/element.cuh"
#include "kernels/attention/head_tile.cuh"
#include "kernels/attention/output_store.cuh"
#include "kernels/attention/sm90_roles.cuh"
#include "kernels/attention/softmax.cuh"
#include "kernels/pipe/group_barrier.cuh"
#include "kernels/pipe/ring.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace fovea::attention {

/// Constants of a kernel. `Variant` defines the type Element and the tuning parameters kTuning.
template <typename Variant>
struct SinglePassCfg : Variant {
  using Variant::kTuning;
  static constexpr int kHeadDim = kTuning.head_dim;
  static constexpr int kKeys = kTuning.kv_tile;
  static constexpr int kConsumers = kTuning.consumers;
  static constexpr int kKeySlots = kTuning.key_slots;
  static constexpr int kTileSlots = kTuning.tile_slots;

  static constexpr int kKeyRows = key_rows(kKeys);
  static constexpr int kSteps = kKeyRows / 16;  // steps of P V
  static constexpr int kThreads = threads_of(kConsumers);
  static constexpr std::size_t kSharedBytes = shared_bytes(kTuning);
  static_assert(kKeys % 8 == 0 && kKeys <= 256, "one wgmma makes all of a tile's scores");
  static_assert(kKeySlots >= 2 && kTileSlots > kConsumers, "a ring that cannot advance");
};

template <typename Cfg>
struct SinglePassStorage {
  HeadTile<Cfg::kHeadDim, Cfg::kKeyRows> keys[Cfg::kKeySlots];
  HeadTile<Cfg::kHeadDim, kTileRows> tiles[Cfg::kTileSlots];
  pipe::Ring<Cfg::kKeySlots> key_barriers;
  pipe::Ring<Cfg::kTileSlots> tile_barriers;
};

/// The place of a work item. Items are ordered by part of a head, then by head, then by image from
/// the last one to the first: the first images are then still in L2 for the matrix product that
/// follows and begins with them.
struct SinglePassItem {
  int part, head, image;
  __device__ __forceinline__ SinglePassItem(const Sm90Params& params, int item) {
    const int head_of_all = item / params.parts;
    part = item - head_of_all * params.parts;
    image = head_of_all / params.heads;
    head = head_of_all - image * params.heads;
  }
  /// Advances by `step`, a distance in the form of an item, without a division.
  __device__ __forceinline__ void advance(const Sm90Params& params, const SinglePassItem& step) {
    part += step.part;
    head += step.head;
    image += step.image;
    if (part >= params.parts) {
      part -= params.parts;
      ++head;
    }
    if (head >= params.heads) {
      head -= params.heads;
      ++image;
    }
  }
};

/// Loads K, the queries and V of each of the block's items; called by one thread.
template <typename Cfg>
__device__ __forceinline__ void produce(const Sm90Params& params, SinglePassStorage<Cfg>& shared) {
  auto key = pipe::PipeState<Cfg::kKeySlots>::producer_start();
  auto tile = pipe::PipeState<Cfg::kTileSlots>::producer_start();
  const auto load_keys = [&](const OperandMaps& maps, const SinglePassItem& place) {
    shared.key_barriers.wait_empty(key);
    shared.keys[key.stage].load(maps, &shared.key_barriers.full[key.stage], 0,
                                place.head / params.head_group, params.last_image - place.image);
    key.advance();
  };
  SinglePassItem place(params, blockIdx.x);
  const SinglePassItem step(params, gridDim.x);
  for (int item = blockIdx.x; item < params.items; item += gridDim.x, place.advance(params, step)) {
    load_keys(params.k, place);
    for (int i = 0; i < params.tiles; ++i) {
      shared.tile_barriers.wait_empty(tile);
      shared.tiles[tile.stage].load(params.q, &shared.tile_barriers.full[tile.stage],
                                    (place.part * params.tiles + i) * kTileRows, place.head,
                                    params.last_image - place.image);
      tile.advance();
      if (i == 0) {
        load_keys(params.v, place);
      }
    }
  }
}

/// Computes columns 16 * step to 16 * step + 15 of P = 2^(scale_log2 * S - shift) as a 16-bit A
/// operand of wgmma, and adds this thread's part of each row's sum to `sum`. Columns from kKeys on
/// are zero.
template <typename Cfg>
__device__ __forceinline__ void exponentials(const float (&s)[Cfg::kKeys / 2], int step,
                                             float scale_log2, const RowPair& shift,
                                             std::uint32_t (&p)[4], RowPair& sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int score = step * 8 + i * 2;
    if (score < Cfg::kKeys / 2) {
      const float low = ptx::ex2_approx(fmaf(s[score], scale_log2, -shift.row[i % 2]));
      const float high = ptx::ex2_approx(fmaf(s[score + 1], scale_log2, -shift.row[i % 2]));
      sum.row[i % 2] += low + high;
      p[i] = Cfg::Element::pack(low, high);
    } else {
      p[i] = 0;
    }
  }
}

/// The work of consumer warpgroup `group`: every kConsumers-th query tile of the block's items. The
/// scores of the next tile are computed while the output of this one is stored.
template <typename Cfg>
__device__ __forceinline__ void consume(const Sm90Params& params, SinglePassStorage<Cfg>& shared,
                                        int group) {
  using Element = typename Cfg::Element;
  const int warp = threadIdx.x / 32 % 4;
  const int lane = threadIdx.x % 32;
  auto key = pipe::PipeState<Cfg::kKeySlots>::consumer_start();
  auto tile = pipe::PipeState<Cfg::kTileSlots>::consumer_start();
  tile.stage = static_cast<std::uint32_t>(group);
  int held = -1;  // slot of the query tile that this warp's store still reads

  const pipe::OrderedBarrier<Cfg::kConsumers> order(group);

  SinglePassItem at(params, blockIdx.x);
  const SinglePassItem step(params, gridDim.x);
  int item = blockIdx.x;
  int in_item = group;  // index of the tile within the item
  // Advances to the item that contains the tile; returns false when there is none.
  const auto find_tile = [&] {
    while (in_item >= params.tiles) {
      in_item -= params.tiles;
      item += gridDim.x;
      at.advance(params, step);
      key.skip(2);
    }
    return item < params.items;
  };
  float s[Cfg::kKeys / 2];
  const auto start_tile = [&] {
    shared.key_barriers.wait_full(key);
    shared.tile_barriers.wait_full(tile);
    ptx::wgmma_fence();  // without it in every tile, ptxas serialises the products
    start_scores<Element, Cfg::kKeys>(s, shared.tiles[tile.stage], shared.keys[key.stage]);
    ptx::wgmma_commit_group();
  };

  if (!find_tile()) {
    return;
  }
  start_tile();
  for (;;) {
    const SinglePassItem place = at;
    const int row = (at.part * params.tiles + in_item) * kTileRows + warp * kOutputRows;
    const int slot = static_cast<int>(tile.stage);
    const auto value = key.next();
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_operands(s);
    if (lane == 0) {
      shared.key_barriers.release(key.stage);
    }

    mask_tail<Cfg::kKeys - 8>(s, params.keys, lane);
    const RowPair max = row_max(s);
    const RowPair shift{{max.row[0] * params.scale_log2, max.row[1] * params.scale_log2}};
    RowPair sum{};
    std::uint32_t p[Cfg::kSteps][4];
#pragma unroll
    for (int step = 0; step < Cfg::kSteps; ++step) {
      exponentials<Cfg>(s, step, params.scale_log2, shift, p[step], sum);
    }
    if (lane == 0 && held >= 0) {
      ptx::bulk_wait_group_read<0>();
      shared.tile_barriers.release(held);
    }
    held = slot;

    OutputTile<Cfg::kHeadDim> o;
    shared.key_barriers.wait_full(value);
    order.wait();
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Cfg::kSteps; ++step) {
      start_output<Element>(o, p[step], shared.keys[value.stage], step, step != 0);
    }
    ptx::wgmma_commit_group();
    const float upper = ptx::rcp_approx(quad_sum(sum.row[0]));
    const float lower = ptx::rcp_approx(quad_sum(sum.row[1]));
    in_item += Cfg::kConsumers;
    tile.skip(Cfg::kConsumers);
    const bool more = find_tile();
    ptx::wgmma_wait_group<0>();
    o.fence();
    if (lane == 0) {
      shared.key_barriers.release(value.stage);
    }

    const auto store = [&] {
      o.multiply(upper, lower);
      store_output<Element>(params, o, shared.tiles[slot], warp, lane, row, place.head,
                            params.last_image - place.image);
    };
    if (!more) {
      order.pass();
      store();
      break;
    }
    start_tile();
    order.pass();
    store();
  }
  if (lane == 0) {
    ptx::bulk_wait_group_read<0>();
  }
}

template <typename Cfg>
__device__ __forceinline__ void sm90_single_pass(const Sm90Params& params) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<SinglePassStorage<Cfg>*>(memory);
  static_assert(sizeof(SinglePassStorage<Cfg>) == Cfg::kSharedBytes);
  static_assert(sizeof(SinglePassStorage<Cfg>) <= kBlockSharedBytes);

  run_sm90<Cfg::kConsumers>(
      [&] {
        // Arrivals per phase: at `full`, one by the producer, which also expects the bytes; at
        // `empty`, one by each warp that reads the slot, per query tile.
        shared.key_barriers.init(1, pipe::kWarpgroupWarps * params.tiles);
        shared.tile_barriers.init(1, pipe::kWarpgroupWarps);
      },
      [&] { produce<Cfg>(params, shared); },
      [&](int group) { consume<Cfg>(params, shared, group); });
}

}  // namespace fovea::attention
