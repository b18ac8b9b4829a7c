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
  DevicePtr codes = 0;  // u8 (search_tiles(count) * row_search::kTileRows, stride), and some bytes
  DevicePtr terms = 0;  // row_search::RowTerms, of as many rows
  std::int64_t count = 0;
  std::int64_t stride = 0;  // a multiple of 64
};

[[nodiscard]] std::int64_t search_tiles(std::int64_t rows);
/// Bytes of the memory at SearchRows::codes and SearchRows::terms.
[[nodiscard]] std::int64_t search_code_bytes(std::int64_t rows, std::int64_t stride);
[[nodiscard]] std::int64_t search_term_bytes(std::int64_t rows);
/// Codes of queries, each of them within row_search::kMostFineCode or within 127, in the order in
/// which products take them: `codes` (queries, stride). Fine ones are split into two bytes.
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

/// The kernel for a number of queries: few queries have 16-bit codes.
struct ScanPlan {
  KernelId kernel{};
  bool fine = false;
  std::int64_t queries = 0;  // of a CTA
  std::int64_t panels = 0;
  std::int64_t ctas_per_sm = 0;
};
/// Throws fovea::Error where can_run says no.
[[nodiscard]] ScanPlan plan_scan(const SearchProblem& problem, const DeviceInfo& device);
/// Queries for which the plan needs codes and terms, of zeros beyond those there are.
[[nodiscard]] std::int64_t scan_room(const ScanPlan& plan, std::int64_t queries);

struct ScanOperands {
  DevicePtr queries = 0;      // of pack_queries: scan_room of them
  DevicePtr query_terms = 0;  // row_search::QueryTerms (scan_room)
  DevicePtr best = 0;         // f32 (queries, 2, tiles)
};
[[nodiscard]] Launch scan_launch(const DeviceInfo& device, const ScanPlan& plan,
                                 const SearchRows& rows, std::int64_t queries,
                                 const ScanOperands& operands);

/// The tiles that may have one of `rank` best rows, those of the list from number `skip` on.
struct PickProblem {
  std::int64_t tiles = 0;
  std::int64_t queries = 0;
  std::int64_t rank = 0;
  std::int64_t skip = 0;
  std::int64_t capacity = 0;
};
[[nodiscard]] std::string to_string(const PickProblem& problem);
[[nodiscard]] Support can_run(const PickProblem& problem, const DeviceInfo& device);
/// `picked`: words (queries, 2 + capacity).
[[nodiscard]] Launch pick_launch(const DeviceInfo& device, const PickProblem& problem,
                                 DevicePtr best, DevicePtr picked);

struct BoundsOperands {
  DevicePtr queries = 0;      // of pack_queries: fine ones
  DevicePtr query_terms = 0;  // row_search::QueryTerms (queries)
  DevicePtr pairs = 0;        // row_search::Pair (pairs)
  DevicePtr bounds = 0;       // row_search::Bounds (pairs, row_search::kTileRows)
};
[[nodiscard]] Launch bounds_launch(const DeviceInfo& device, const SearchRows& rows,
                                   std::int64_t pairs, const BoundsOperands& operands);

}  // namespace fovea::gpu
