// What the kernels of exact search take; shared by host and device.
//
// Rows and queries are codes of 8 bits with the terms of a proven bound (src/search/row_codes.hpp):
//   score = sum * scale * scale' + along * along'  +-  length * length' + error
// where the second of each pair is the query's, and sum is one of integers, less the query's
// offset. Rows come in tiles.
#pragma once

#include <cstdint>

namespace fovea::row_search {

inline constexpr int kTileRows = 64;
inline constexpr int kThreads = 256;  // of a CTA of scan and bounds
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kPickThreads = 1024;

/// Bytes of a row that a warp multiplies at once, 16 a lane; rows are a multiple of them.
inline constexpr int kBlockBytes = 64;
/// Such blocks that are on their way. Queries are a multiple of so many, with zeros at the end:
/// what is read beyond the end of a row counts for nothing.
inline constexpr int kAhead = 2;

/// Bytes that may be read beyond the last row.
inline constexpr int kBytesBeyond = kAhead * kBlockBytes;

/// Codes of queries are packed as a product takes them: panels of kPanelLines lines, each in blocks
/// of kPanelBytes, whose bytes are in the order of the lanes (src/gpu/launch/search.cpp). A query
/// has a line, or with fine codes two that are kFineQueries apart: high and low.
inline constexpr int kPanelLines = 16;
inline constexpr int kFineQueries = kPanelLines / 2;
inline constexpr int kPanelBytes = kPanelLines * kBlockBytes;

/// What a code of 16 bits is split into: kHigh * high + low, each of 8 bits.
inline constexpr int kHigh = 128;
inline constexpr int kMostFineCode = 127 * kHigh + kHigh / 2 - 1;

struct alignas(16) RowTerms {
  float scale;
  float along;
  float length;
  float error;
};

struct alignas(16) QueryTerms {
  float scale;
  float along;
  float length;
  std::int32_t offset;
};

struct alignas(8) Bounds {
  float lower;
  float upper;
};

/// The rows, in whole tiles; what is beyond the last row may be anything.
struct Rows {
  const std::uint8_t* codes = nullptr;  // (tiles * kTileRows, stride), and kBytesBeyond
  const RowTerms* terms = nullptr;      // (tiles * kTileRows)
  std::int64_t count = 0;
  std::int32_t stride = 0;  // bytes, a multiple of kBlockBytes
  std::int32_t tiles = 0;
};

/// scan: the highest lower and the highest upper bound of each tile, for each query.
struct ScanParams {
  Rows rows{};
  const std::int8_t* queries = nullptr;     // (groups * panels of a CTA, blocks, kPanelBytes)
  const QueryTerms* query_terms = nullptr;  // (groups * queries of a CTA)
  float* best = nullptr;                    // (query_count, 2, tiles): lower, then upper
  std::int32_t blocks = 0;                  // of a query, a multiple of kAhead
  std::int32_t query_count = 0;
  std::int32_t groups = 0;  // of queries, each with CTAs of its own
};

/// What pick writes of a query, before its list.
struct Picked {
  float floor;         // the rank-th highest of the lower bounds; -inf when there are not as many
  std::int32_t count;  // of the tiles whose upper bound reaches it
};

/// pick: for each query the tiles that may have rows of its best ones, in their order.
struct PickParams {
  const float* best = nullptr;  // as scan's
  /// Words (query_count, 2 + capacity): Picked, then those tiles of the list from number `skip` on,
  /// as many as there is room for, then -1.
  std::int32_t* picked = nullptr;
  std::int32_t tiles = 0;
  std::int32_t rank = 0;  // from 1 on
  std::int32_t skip = 0;
  std::int32_t capacity = 0;
};

struct Pair {
  std::int32_t query;
  std::int32_t tile;
};

/// bounds: of each row of the tiles, by fine codes; zeros for what is beyond the last row.
struct BoundsParams {
  Rows rows{};
  const std::int8_t* queries = nullptr;     // (panels, blocks, kPanelBytes)
  const QueryTerms* query_terms = nullptr;  // (query)
  const Pair* pairs = nullptr;
  Bounds* bounds = nullptr;  // (pair_count, kTileRows)
  std::int32_t blocks = 0;
  std::int32_t pair_count = 0;
};

/// Shared memory of pick: a histogram of 256, two counts a warp, and two numbers.
inline constexpr int kPickSharedBytes = (256 + 2 * kPickThreads / 32 + 2) * 4;

/// Bytes of shared memory for the queries of a CTA of scan: panels, and the terms.
constexpr std::int64_t scan_shared_bytes(int panels, int queries, std::int64_t blocks) {
  return panels * blocks * kPanelBytes + queries * static_cast<std::int64_t>(sizeof(QueryTerms));
}

}  // namespace fovea::row_search
