// Exact search on a GPU: the codes of rows in its memory, and the launches of the three steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/support.hpp"
#include "gpu/device/device.hpp"
#include "gpu/launch/launch.hpp"

namespace fovea::gpu {

/// Rows of 8-bit codes, in whole tiles of row_search::kTileRows, and their terms.
struct SearchRows {
  DevicePtr codes = 0;  // u8 (search_tiles(count) * row_search::kTileRows, stride), and padding
  DevicePtr terms = 0;  // row_search::RowTerms (search_tiles(count) * row_search::kTileRows)
  std::int64_t count = 0;
  std::int64_t stride = 0;  // a multiple of 64
};

[[nodiscard]] std::int64_t search_tiles(std::int64_t rows);
/// Return the size in bytes of SearchRows::codes and of SearchRows::terms.
[[nodiscard]] std::int64_t search_code_bytes(std::int64_t rows, std::int64_t stride);
[[nodiscard]] std::int64_t search_term_bytes(std::int64_t rows);
/// Packs the codes (queries, stride) of queries in the order in which products take them.
/// Magnitudes must not exceed 127, or row_search::kMostFineCode if `fine`; fine codes are split
/// into two bytes.
[[nodiscard]] std::vector<std::int8_t> pack_queries(std::span<const std::int16_t> codes,
                                                    std::int64_t stride, bool fine);

/// The sizes of a search.
struct SearchProblem {
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  std::int64_t queries = 0;
};

[[nodiscard]] std::string to_string(const SearchProblem& problem);
[[nodiscard]] Support can_run(const SearchProblem& problem, const DeviceInfo& device);

/// The kernel for a number of queries. A few queries can have fine codes, of 16 bits.
struct ScanPlan {
  KernelId kernel{};
  bool fine = false;
  std::int64_t queries = 0;  // per CTA
  std::int64_t panels = 0;
  std::int64_t ctas_per_sm = 0;
};
/// Throws fovea::Error if can_run refuses the problem.
[[nodiscard]] ScanPlan plan_scan(const SearchProblem& problem, const DeviceInfo& device);
/// Returns the number of queries for which the plan needs codes and terms; those beyond `queries`
/// are zeros.
[[nodiscard]] std::int64_t padded_queries(const ScanPlan& plan, std::int64_t queries);

struct ScanOperands {
  DevicePtr queries = 0;      // from pack_queries, for padded_queries()
  DevicePtr query_terms = 0;  // row_search::QueryTerms (padded_queries())
  DevicePtr best = 0;         // f32 (queries, 2, tiles)
};
[[nodiscard]] Launch scan_launch(const DeviceInfo& device, const ScanPlan& plan,
                                 const SearchRows& rows, std::int64_t queries,
                                 const ScanOperands& operands);

/// Lists the tiles that may contain one of the `rank` best rows, starting at number `skip`.
struct PickProblem {
  std::int64_t tiles = 0;
  std::int64_t queries = 0;
  std::int64_t rank = 0;
  std::int64_t skip = 0;
  std::int64_t capacity = 0;
};
[[nodiscard]] std::string to_string(const PickProblem& problem);
[[nodiscard]] Support can_run(const PickProblem& problem, const DeviceInfo& device);
/// `picked`: int32 (queries, 2 + capacity).
[[nodiscard]] Launch pick_launch(const DeviceInfo& device, const PickProblem& problem,
                                 DevicePtr best, DevicePtr picked);

struct BoundsOperands {
  DevicePtr queries = 0;      // from pack_queries, fine
  DevicePtr query_terms = 0;  // row_search::QueryTerms (queries)
  DevicePtr pairs = 0;        // row_search::Pair (pairs)
  DevicePtr bounds = 0;       // row_search::Bounds (pairs, row_search::kTileRows)
};
[[nodiscard]] Launch bounds_launch(const DeviceInfo& device, const SearchRows& rows,
                                   std::int64_t pairs, const BoundsOperands& operands);

}  // namespace fovea::gpu
