// Shared by the attention kernels and their launcher: the kernels' parameters and tuning, and the
// amount of shared memory that follows from the tuning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/tensor_map.hpp"

namespace fovea::attention {

/// The tensor maps of one operand (head_dim, rows, heads, images): `wide` for spans of 64 columns,
/// `rest` for the last span when 64 does not divide the head dimension.
struct OperandMaps {
  TensorMap wide;
  TensorMap rest;
};

/// Rows of a box of the output: one warp's rows.
inline constexpr int kOutputRows = 16;
/// Query rows of a warpgroup's tile.
inline constexpr int kTileRows = 64;

struct Sm90Params {
  OperandMaps q;
  OperandMaps k;
  OperandMaps v;
  OperandMaps o;
  float scale_log2;  // scale * log2(e), because the softmax uses powers of two
  std::int32_t heads;
  std::int32_t head_group;  // number of query heads that share a key head
  std::int32_t queries;
  std::int32_t keys;
  std::int32_t items;           // total number of work items
  std::int32_t parts;           // number of items per head
  std::int32_t tiles;           // query tiles per item
  std::int32_t heads_together;  // number of heads whose items alternate
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
  /// For sequences of different lengths: the first row of each, then the end of the last; else
  /// null.
  const std::int32_t* cu_seqlens_q;
  const std::int32_t* cu_seqlens_k;
  float scale_log2;
  std::int32_t tiles;  // query tiles per head
  std::int32_t heads;
  std::int32_t head_group;  // number of query heads that share a key head
  std::int32_t queries;
  std::int32_t keys;
  std::int32_t head_dim;
  std::int32_t causal;
};

/// Tuning for short sequences, with all keys of a head in shared memory (sm90_single_pass.cuh).
struct SinglePassTuning {
  int head_dim;
  int kv_tile;     // maximum number of keys; the minimum is 7 less
  int consumers;   // consumer warpgroups
  int key_slots;   // key or value tiles in shared memory; a head takes two
  int tile_slots;  // tiles of 64 queries in shared memory
};

/// Tuning for sequences of any length, whose keys are streamed (sm90_online.cuh).
struct OnlineTuning {
  int head_dim;
  int kv_tile;     // keys per block
  int consumers;   // consumer warpgroups, with 64 queries each
  int key_slots;   // key or value blocks in shared memory
  int tile_slots;  // tiles of 64 queries in shared memory
  /// Relative time per key and item, to compare kernels for one head dim; measured on an H200.
  int cost;
};

/// Alignment of tiles: the size of the widest swizzle pattern, in bytes.
inline constexpr int kTileAlignment = 1024;

constexpr int threads_of(int consumers) {
  return (consumers + 1) * 128;
}
constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
/// Columns of a head's last span when 64 does not divide the head dimension, rounded up to whole
/// steps of Q K^T.
constexpr int rest_columns(int head_dim) {
  return round_up(head_dim % 64, 16);
}
/// Rows of a tile of keys, rounded up to whole steps of P V.
constexpr int key_rows(int keys) {
  return round_up(keys, 16);
}

/// Bytes of dynamic shared memory: the tiles, then a full and an empty barrier for each slot.
template <typename Tuning>
constexpr std::size_t shared_bytes(const Tuning& tuning) {
  const int row_bytes = (tuning.head_dim / 64 * 64 + rest_columns(tuning.head_dim)) * 2;
  const int key_tile = round_up(key_rows(tuning.kv_tile) * row_bytes, kTileAlignment);
  const int query_tile = round_up(kTileRows * row_bytes, kTileAlignment);
  const int bytes = tuning.key_slots * (key_tile + 16) + tuning.tile_slots * (query_tile + 16);
  return static_cast<std::size_t>(round_up(bytes, kTileAlignment));
}

/// Tuning for any GPU from sm_80 on (mma_attention.cuh).
struct MmaTuning {
  int head_dim;    // heads are padded to this width
  int warp_rows;   // queries per warp
  int row_groups;  // number of warps along the queries
  int key_groups;  // number of warps along the keys
  int kv_tile;     // keys per block
  int stages;      // blocks of a key group in shared memory
  int ctas_per_sm;
  /// Relative time per query and key, to compare kernels for one head dim; measured on an H200.
  int cost;
};

/// A block with at most this many keys left is processed by a shorter sequence of instructions.
constexpr int mma_few_keys(const MmaTuning& tuning) {
  return round_up(tuning.kv_tile / 2, 16);
}
constexpr int mma_rows(const MmaTuning& tuning) {
  return tuning.row_groups * tuning.warp_rows;
}
constexpr int mma_threads(const MmaTuning& tuning) {
  return tuning.row_groups * tuning.key_groups * 32;
}
/// Shared memory for the addresses of a head's keys and values and for their number, rounded up to
/// the alignment of tiles.
inline constexpr std::size_t kHeadPlaceBytes = 128;
constexpr std::size_t mma_shared_bytes(const MmaTuning& tuning) {
  const int rows = mma_rows(tuning) + 2 * tuning.key_groups * tuning.stages * tuning.kv_tile;
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(tuning.head_dim) * 2 +
         kHeadPlaceBytes;
}

/// Tuning for multiply-adds in f32 (scalar.cuh).
struct ScalarTuning {
  int head_dim;  // heads are padded to this width
  int stages;    // key or value tiles in shared memory, including those being copied
};
/// Minimum number of keys for a ring of three tiles; with fewer keys it has two.
inline constexpr int kScalarLongKeys = 2048;
inline constexpr int kScalarThreads = 512;

/// Bytes of shared memory: the queries, the ring, the probabilities of a tile in f32, and the head.
constexpr std::size_t scalar_shared_bytes(const ScalarTuning& tuning) {
  return static_cast<std::size_t>(kTileRows) *
             (static_cast<std::size_t>(tuning.head_dim) * 2 * (1 + tuning.stages) + kTileRows * 4) +
         kHeadPlaceBytes;
}

/// Tuning for matrix products of 16x16x16 (mma_small.cuh).
struct MmaSmallTuning {
  int head_dim;      // heads are padded to this width
  int ctas_per_sm;   // minimum, a launch bound
  int warps;         // warps per CTA, with 16 queries each
  int kv_tile;       // keys per block
  int stages;        // blocks of keys and values in shared memory
  int score_keys;    // number of keys whose scores a warp holds in registers
  int held_queries;  // 1: queries stay in registers; 0: they are loaded for each step of keys
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
