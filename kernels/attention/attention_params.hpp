// What the attention kernels and their launcher agree on: parameters, the kernels that are built
// and their tuning, and the shared memory that follows from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/tensor_map.hpp"

namespace fovea::attention {

/// The maps of one operand, a tensor (head_dim, rows, heads, images): spans of 64 columns, and the
/// last span of a head dimension that is no multiple of 64.
struct OperandMaps {
  TensorMap wide;
  TensorMap rest;
};

/// Rows of a box of the output: those of one warp.
inline constexpr int kOutputRows = 16;
/// Query rows of a warpgroup's tile.
inline constexpr int kTileRows = 64;

struct Sm90Params {
  OperandMaps q;
  OperandMaps k;
  OperandMaps v;
  OperandMaps o;
  float scale_log2;  // scale * log2(e): softmax in powers of two
  std::int32_t heads;
  std::int32_t head_group;  // heads that share keys
  std::int32_t queries;
  std::int32_t keys;
  std::int32_t items;           // of work, in all
  std::int32_t parts;           // items that share a head
  std::int32_t tiles;           // query tiles of an item
  std::int32_t heads_together;  // heads whose items alternate
  std::int32_t causal;
  std::int32_t last_image;
};

/// Element (b, n, h, d) of an operand lies at b * batch + n * row + h * head + d.
struct PortableOperand {
  std::uint8_t* data;
  std::int64_t batch;
  std::int64_t row;
  std::int64_t head;
};

struct PortableParams {
  PortableOperand q;
  PortableOperand k;
  PortableOperand v;
  PortableOperand o;
  /// Rows where sequences begin with varlen, and at last where the last one ends; else null.
  const std::int32_t* cu_seqlens_q;
  const std::int32_t* cu_seqlens_k;
  float scale_log2;
  std::int32_t tiles;  // of a head's queries
  std::int32_t heads;
  std::int32_t head_group;  // heads that share keys
  std::int32_t queries;
  std::int32_t keys;
  std::int32_t head_dim;
  std::int32_t causal;
};

/// Short sequences: all keys of a head on chip (sm90_single_pass.cuh).
struct SinglePassTuning {
  int head_dim;
  int kv_tile;     // columns of scores: keys up to this, and more than 8 fewer
  int consumers;   // warpgroups that multiply
  int key_slots;   // tiles of keys or values on chip; a head takes two
  int tile_slots;  // tiles of 64 queries on chip
};

/// Any length: keys stream through (sm90_online.cuh).
struct OnlineTuning {
  int head_dim;
  int kv_tile;     // keys of a block
  int consumers;   // warpgroups that multiply, with 64 queries each
  int key_slots;   // blocks of keys or values on chip
  int tile_slots;  // tiles of 64 queries on chip
  int cost;        // of a key, for an item, beside other kernels of the width; of an H200's times
};

/// The widest swizzle pattern.
inline constexpr int kTileAlignment = 1024;

constexpr int threads_of(int consumers) {
  return (consumers + 1) * 128;
}
constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
/// Columns of a head's last span, where 64 does not divide the head dimension: whole steps of
/// Q K^T.
constexpr int rest_columns(int head_dim) {
  return round_up(head_dim % 64, 16);
}
/// Rows of a tile of keys: whole steps of P V.
constexpr int key_rows(int keys) {
  return round_up(keys, 16);
}

/// Dynamic shared memory: tiles, then a full and an empty barrier a slot.
template <typename Tuning>
constexpr std::size_t shared_bytes(const Tuning& tuning) {
  const int row_bytes = (tuning.head_dim / 64 * 64 + rest_columns(tuning.head_dim)) * 2;
  const int key_tile = round_up(key_rows(tuning.kv_tile) * row_bytes, kTileAlignment);
  const int query_tile = round_up(kTileRows * row_bytes, kTileAlignment);
  const int bytes = tuning.key_slots * (key_tile + 16) + tuning.tile_slots * (query_tile + 16);
  return static_cast<std::size_t>(round_up(bytes, kTileAlignment));
}

/// Any GPU from sm_80 on (mma_attention.cuh).
struct MmaTuning {
  int head_dim;    // heads are padded to it
  int warp_rows;   // queries of a warp
  int row_groups;  // warps along the queries
  int key_groups;  // warps along the keys
  int kv_tile;     // keys of a block
  int stages;      // blocks of a key group on chip
  int ctas_per_sm;
  int cost;  // of a query and a key, beside other kernels of the width; of an H200's times
};

/// Where so many keys or fewer are left, a warp looks at no more of their block.
constexpr int mma_few_keys(const MmaTuning& tuning) {
  return round_up(tuning.kv_tile / 2, 16);
}
constexpr int mma_rows(const MmaTuning& tuning) {
  return tuning.row_groups * tuning.warp_rows;
}
constexpr int mma_threads(const MmaTuning& tuning) {
  return tuning.row_groups * tuning.key_groups * 32;
}
/// Where a head's keys and values begin, and how many they are; to the alignment of tiles.
inline constexpr std::size_t kHeadPlaceBytes = 128;
constexpr std::size_t mma_shared_bytes(const MmaTuning& tuning) {
  const int rows = mma_rows(tuning) + 2 * tuning.key_groups * tuning.stages * tuning.kv_tile;
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(tuning.head_dim) * 2 +
         kHeadPlaceBytes;
}

/// Multiply-adds in f32 (scalar.cuh).
struct ScalarTuning {
  int head_dim;  // heads are padded to it
  int stages;    // tiles of keys or values on chip or under way
};
/// Keys from which on the ring has three tiles; below, it has two.
inline constexpr int kScalarLongKeys = 2048;
inline constexpr int kScalarThreads = 512;

/// Queries, the ring, and the probabilities of a tile in f32.
constexpr std::size_t scalar_shared_bytes(const ScalarTuning& tuning) {
  return static_cast<std::size_t>(kTileRows) *
             (static_cast<std::size_t>(tuning.head_dim) * 2 * (1 + tuning.stages) + kTileRows * 4) +
         kHeadPlaceBytes;
}

/// Matrix products of 16x16x16 (mma_small.cuh).
struct MmaSmallTuning {
  int head_dim;      // heads are padded to it
  int ctas_per_sm;   // at least
  int warps;         // with 16 queries each
  int kv_tile;       // keys of a block
  int stages;        // blocks of keys and values on chip
  int score_keys;    // whose scores a warp has in registers at once
  int held_queries;  // 1: queries stay in registers, 0: they are loaded for each step of keys
};
constexpr int mma_small_rows(const MmaSmallTuning& tuning) {
  return tuning.warps * 16;
}
constexpr int mma_small_threads(const MmaSmallTuning& tuning) {
  return tuning.warps * 32;
}
constexpr std::size_t mma_small_shared_bytes(const MmaSmallTuning& tuning) {
  return static_cast<std::size_t>(mma_small_rows(tuning) + 2 * tuning.stages * tuning.kv_tile) *
         static_cast<std::size_t>(tuning.head_dim) * 2;
}

}  // namespace fovea::attention
