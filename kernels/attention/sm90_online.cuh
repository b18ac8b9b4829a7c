// Attention over sequences of any length, for sm_90a and 16-bit elements: O = softmax(scale Q K^T)
// V, causal or not.
//
// Keys are streamed in blocks, and the sums are rescaled whenever a row's maximum grows. Contract:
// any number of queries, keys, heads and images; causal needs queries <= keys; strides are those of
// the tensor maps. Deterministic; O may share Q's memory.
//
//   producer warp --- K, V in blocks ---> ring of key tiles --+
//        |  ^ ^                                               v
//        |  | +------- empty: 4 warps of each consumer ------ consumer warpgroups, 64 queries each:
//        |  +--------- empty: stored (4 warps) -------------- in turn,  S' = Q K'^T and O += P V;
//        +-- Q, 64 rows a tile -> ring of query tiles ------> then the exponentials of S' during
//                                                             the products of the others
//
// Order in the ring: K0, K1, V0, K2, V1, ..., last V; blocks are numbered from the last keys to the
// first, so that the block in which rows end is processed first.
//
// Registers of a consumer: S (64, kKeys) f32, P (64, kKeys) 16-bit, O (64, head_dim) f32.
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
struct OnlineCfg : Variant {
  using Variant::kTuning;
  static constexpr int kHeadDim = kTuning.head_dim;
  static constexpr int kKeys = kTuning.kv_tile;
  static constexpr int kConsumers = kTuning.consumers;
  static constexpr int kKeySlots = kTuning.key_slots;
  static constexpr int kTileSlots = kTuning.tile_slots;

  static constexpr int kSteps = kKeys / 16;                // steps of P V
  static constexpr int kQueries = kConsumers * kTileRows;  // queries per item
  static constexpr int kThreads = threads_of(kConsumers);
  static constexpr std::size_t kSharedBytes = shared_bytes(kTuning);
  static_assert(kKeys % 16 == 0 && kKeys <= 256, "one wgmma makes all of a block's scores");
  static_assert(kKeySlots >= 3 && kTileSlots > kConsumers, "a ring that cannot advance");
};

template <typename Cfg>
struct OnlineStorage {
  HeadTile<Cfg::kHeadDim, Cfg::kKeys> keys[Cfg::kKeySlots];
  HeadTile<Cfg::kHeadDim, kTileRows> tiles[Cfg::kTileSlots];
  pipe::Ring<Cfg::kKeySlots> key_barriers;
  pipe::Ring<Cfg::kTileSlots> tile_barriers;
};

/// A work item: kQueries rows of one head, beginning with `row`, and the key blocks that they
/// attend to. Items alternate between `heads_together` heads, and run from the last rows, which
/// attend to most keys, to the first.
template <typename Cfg>
struct OnlineItem {
  int row, head, image, blocks;
  __device__ __forceinline__ OnlineItem(const Sm90Params& params, int item) {
    const int group_items = params.heads_together * params.parts;
    const int group = item / group_items;
    const int within = item - group * group_items;
    const int part = within / params.heads_together;
    const int head_of_all = group * params.heads_together + within - part * params.heads_together;
    image = head_of_all / params.heads;
    head = head_of_all - image * params.heads;
    row = (params.parts - 1 - part) * Cfg::kQueries;
    int seen = params.keys;
    if (params.causal != 0) {
      seen = min(seen, row + Cfg::kQueries + params.keys - params.queries);
    }
    blocks = (seen + Cfg::kKeys - 1) / Cfg::kKeys;
  }
};

/// Assigns items to blocks: one per round, in alternating directions, so that the work is balanced
/// although later items attend to fewer keys.
struct Rounds {
  int base = 0;
  bool back = false;
  __device__ __forceinline__ int item() const {
    return base + static_cast<int>(back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  }
  __device__ __forceinline__ void advance() {
    base += static_cast<int>(gridDim.x);
    back = !back;
  }
};

template <typename Cfg>
__device__ __forceinline__ void produce(const Sm90Params& params, OnlineStorage<Cfg>& shared) {
  auto key = pipe::PipeState<Cfg::kKeySlots>::producer_start();
  auto tile = pipe::PipeState<Cfg::kTileSlots>::producer_start();
  // A block may have no item in its last round only.
  for (Rounds round; round.item() < params.items; round.advance()) {
    const OnlineItem<Cfg> at(params, round.item());
    const int key_head = at.head / params.head_group;
    const auto load_keys = [&](const OperandMaps& maps, int block) {
      shared.key_barriers.wait_empty(key);
      shared.keys[key.stage].load(maps, &shared.key_barriers.full[key.stage], block * Cfg::kKeys,
                                  key_head, at.image);
      key.advance();
    };
    for (int i = 0; i < Cfg::kConsumers; ++i) {
      shared.tile_barriers.wait_empty(tile);
      shared.tiles[tile.stage].load(params.q, &shared.tile_barriers.full[tile.stage],
                                    at.row + i * kTileRows, at.head, at.image);
      tile.advance();
      if (i == 0) {
        load_keys(params.k, at.blocks - 1);
      }
    }
    for (int block = at.blocks - 2; block >= 0; --block) {
      load_keys(params.k, block);
      load_keys(params.v, block + 1);
    }
    load_keys(params.v, 0);
  }
}

/// The work of consumer warpgroup `group`: query tile `group` of each of the block's items. The
/// first scores of the next item are computed while the output of this one is stored.
template <typename Cfg>
__device__ __forceinline__ void consume(const Sm90Params& params, OnlineStorage<Cfg>& shared,
                                        int group) {
  using Element = typename Cfg::Element;
  const int warp = threadIdx.x / 32 % 4;
  const int lane = threadIdx.x % 32;
  auto key = pipe::PipeState<Cfg::kKeySlots>::consumer_start();
  auto tile = pipe::PipeState<Cfg::kTileSlots>::consumer_start();
  tile.stage = static_cast<std::uint32_t>(group);
  int held = -1;  // slot of the query tile that this warp's store still reads
  const pipe::OrderedBarrier<Cfg::kConsumers> order(group);

  // Waits for the next tile in the ring, and returns its slot.
  const auto next_keys = [&] {
    const std::uint32_t slot = key.stage;
    shared.key_barriers.wait_full(key);
    key.advance();
    return slot;
  };
  const auto release = [&](std::uint32_t slot) {
    if (lane == 0) {
      shared.key_barriers.release(slot);
    }
  };
  float s[Cfg::kKeys / 2];
  std::uint32_t p[Cfg::kSteps][4];
  const auto start_block = [&](std::uint32_t slot) {
    ptx::wgmma_fence();
    start_scores<Element, Cfg::kKeys>(s, shared.tiles[tile.stage], shared.keys[slot]);
    ptx::wgmma_commit_group();
  };
  const auto start_item = [&] {
    shared.tile_barriers.wait_full(tile);
    const std::uint32_t slot = next_keys();
    order.wait();
    start_block(slot);
    order.pass();
    return slot;
  };

  Rounds round;
  if (round.item() >= params.items) {
    return;
  }
  std::uint32_t first_slot = start_item();
  for (;;) {
    const OnlineItem<Cfg> at(params, round.item());
    const int row = at.row + group * kTileRows + warp * kOutputRows;
    const std::uint32_t query_slot = tile.stage;
    // Masks the scores of blocks in which a row's keys end.
    const auto mask = [&](int block) {
      const int first = block * Cfg::kKeys;
      const int causal_keys = row + 1 + params.keys - params.queries - first;
      if (params.causal != 0 && causal_keys < Cfg::kKeys) {
        mask_causal(s, causal_keys, lane);
      }
      if (first + Cfg::kKeys > params.keys) {
        mask_tail<0>(s, params.keys - first, lane);
      }
    };

    ptx::wgmma_wait_group<0>();
    ptx::wgmma_fence_operands(s);
    release(first_slot);
    mask(at.blocks - 1);
    RowPair max{{kMinusInfinity, kMinusInfinity}};
    RowPair sum{};
    // Replaces the scores S by the probabilities P.
    const auto soften = [&](const RowPair& block_max, auto rescale) {
      const RowPair shift =
          raise_maxima<false>(block_max, params.scale_log2, max, [&](const RowPair& factors) {
            sum.row[0] *= factors.row[0];
            sum.row[1] *= factors.row[1];
            rescale(factors);
          });
      take_probabilities(s, params.scale_log2, shift, sum);
      pack<Element>(s, p);
    };
    soften(row_max(s), [](const RowPair&) {});
    if (lane == 0 && held >= 0) {
      ptx::bulk_wait_group_read<0>();
      shared.tile_barriers.release(held);
    }
    held = static_cast<int>(query_slot);

    OutputTile<Cfg::kHeadDim> o;
    o.for_each([](float& x, int) { x = 0.0F; });
    const auto start_values = [&](std::uint32_t slot) {
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < Cfg::kSteps; ++step) {
        start_output<Element>(o, p[step], shared.keys[slot], step, true);
      }
      ptx::wgmma_commit_group();
    };
    for (int block = at.blocks - 2; block >= 0; --block) {  // region: key loop
      const std::uint32_t key_slot = next_keys();
      order.wait();
      start_block(key_slot);
      const std::uint32_t value_slot = next_keys();
      start_values(value_slot);
      order.pass();

      ptx::wgmma_wait_group<1>();
      ptx::wgmma_fence_operands(s);
      release(key_slot);
      mask(block);
      const RowPair block_max = row_max(s);
      ptx::wgmma_wait_group<0>();
      o.fence();
      release(value_slot);
      soften(block_max,
             [&](const RowPair& factors) { o.multiply(factors.row[0], factors.row[1]); });
    }  // end region

    const std::uint32_t last_slot = next_keys();
    start_values(last_slot);
    const float upper = ptx::rcp_approx(quad_sum(sum.row[0]));
    const float lower = ptx::rcp_approx(quad_sum(sum.row[1]));
    round.advance();
    tile.skip(Cfg::kConsumers);
    ptx::wgmma_wait_group<0>();
    o.fence();
    release(last_slot);
    const auto store = [&] {
      o.multiply(upper, lower);
      store_output<Element>(params, o, shared.tiles[query_slot], warp, lane, row, at.head,
                            at.image);
    };
    if (round.item() >= params.items) {
      store();
      break;
    }
    first_slot = start_item();
    store();
  }
  if (lane == 0) {
    ptx::bulk_wait_group_read<0>();
  }
}

template <typename Cfg>
__device__ __forceinline__ void sm90_online(const Sm90Params& params) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<OnlineStorage<Cfg>*>(memory);
  static_assert(sizeof(OnlineStorage<Cfg>) == Cfg::kSharedBytes);
  static_assert(sizeof(OnlineStorage<Cfg>) <= kBlockSharedBytes);

  run_sm90<Cfg::kConsumers>(
      [&] {
        // Arrivals per phase: at `full`, one by the producer, which also expects the bytes; at
        // `empty`, one by each warp that reads the slot.
        shared.key_barriers.init(1, pipe::kWarpgroupWarps * Cfg::kConsumers);
        shared.tile_barriers.init(1, pipe::kWarpgroupWarps);
      },
      [&] { produce<Cfg>(params, shared); },
      [&](int group) { consume<Cfg>(params, shared, group); });
}

}  // namespace fovea::attention
