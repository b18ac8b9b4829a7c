// Parameters of the kernels for exact search; shared by host and device.
//
// Rows and queries are 8-bit codes with the terms of a proven bound (src/search/row_codes.hpp):
//   score = sum * scale * scale' + along * along'  +-  length * length' + error
// where primed terms are the query's, and sum is the integer product of the codes, less the query's
// offset. Rows are grouped in tiles.
#pragma once

#include <cstdint>

namespace fovea::row_search {

inline constexpr int kTileRows = 64;
inline constexpr int kThreads = 256;  // threads per CTA of `scan` and `bounds`
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kPickThreads = 1024;

/// Bytes of a row that a warp multiplies at once, 16 per lane; rows are padded to a multiple of it.
inline constexpr int kBlockBytes = 64;
/// Number of blocks that are loaded ahead. Queries are padded with zeros to a multiple of so many
/// blocks, so that bytes read beyond the end of a row do not count.
inline constexpr int kAhead = 2;

/// Bytes that may be read beyond the last row.
inline constexpr int kBytesBeyond = kAhead * kBlockBytes;

/// Codes of queries are packed for the matrix product: panels of kPanelLines lines, in blocks of
/// kPanelBytes whose bytes are in the order of the lanes (src/gpu/launch/search.cpp). A query has
/// one line, or with fine codes two that are kFineQueries apart: high and low.
inline constexpr int kPanelLines = 16;
inline constexpr int kFineQueries = kPanelLines / 2;
inline constexpr int kPanelBytes = kPanelLines * kBlockBytes;

/// A 16-bit code is split into two 8-bit parts: kHigh * high + low.
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

/// The rows, in whole tiles; bytes beyond the last row may have any value.
struct Rows {
  const std::uint8_t* codes = nullptr;  // (tiles * kTileRows, stride), then kBytesBeyond bytes
  const RowTerms* terms = nullptr;      // (tiles * kTileRows)
  std::int64_t count = 0;
  std::int32_t stride = 0;  // bytes, a multiple of kBlockBytes
  std::int32_t tiles = 0;
};

/// Parameters of `scan`: the highest lower and the highest upper bound of each tile, for each
/// query.
struct ScanParams {
  Rows rows{};
  const std::int8_t* queries = nullptr;     // (groups * panels per CTA, blocks, kPanelBytes)
  const QueryTerms* query_terms = nullptr;  // (groups * queries per CTA)
  float* best = nullptr;                    // (query_count, 2, tiles): lower, then upper
  std::int32_t blocks = 0;                  // blocks per query, a multiple of kAhead
  std::int32_t query_count = 0;
  std::int32_t groups = 0;  // groups of queries, each with separate CTAs
};

/// The header that `pick` writes before a query's list.
struct Picked {
  float floor;         // the rank-th highest lower bound; -inf when there are fewer tiles
  std::int32_t count;  // number of tiles whose upper bound reaches the floor
};

/// Parameters of `pick`: for each query, the tiles that may contain some of its best rows, in
/// order.
struct PickParams {
  const float* best = nullptr;  // as ScanParams::best
  /// (query_count, 2 + capacity) words: Picked, then the tiles of the list without the first
  /// `skip`, at most `capacity`, padded with -1.
  std::int32_t* picked = nullptr;
  std::int32_t tiles = 0;
  std::int32_t rank = 0;  // at least 1
  std::int32_t skip = 0;
  std::int32_t capacity = 0;
};

struct Pair {
  std::int32_t query;
  std::int32_t tile;
};

/// Parameters of `bounds`: bounds for each row of the tiles, from fine codes; zeros for rows beyond
/// the last one.
struct BoundsParams {
  Rows rows{};
  const std::int8_t* queries = nullptr;     // (panels, blocks, kPanelBytes)
  const QueryTerms* query_terms = nullptr;  // indexed by query
  const Pair* pairs = nullptr;
  Bounds* bounds = nullptr;  // (pair_count, kTileRows)
  std::int32_t blocks = 0;
  std::int32_t pair_count = 0;
};

/// Bytes of shared memory of `pick`: a histogram of 256 counts, two counts per warp, and two
/// numbers.
inline constexpr int kPickSharedBytes = (256 + 2 * kPickThreads / 32 + 2) * 4;

/// Bytes of shared memory for the queries of a CTA of `scan`: the panels and the terms.
constexpr std::int64_t scan_shared_bytes(int panels, int queries, std::int64_t blocks) {
  return panels * blocks * kPanelBytes + queries * static_cast<std::int64_t>(sizeof(QueryTerms));
}

}  // namespace fovea::row_search
