// Chooses the scan kernel of exact search, and computes the grids of its kernels.
#include "gpu/launch/search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/search/search_params.hpp"

namespace fovea::gpu {
namespace {

using row_search::kBlockBytes;

// Plans in ascending order of queries; the last one is for any number.
constexpr ScanPlan kScanPlans[] = {{.kernel = KernelId::search_scan_8_fine,
                                    .fine = true,
                                    .queries = 8,
                                    .panels = 1,
                                    .ctas_per_sm = 2},
                                   {.kernel = KernelId::search_scan_16,
                                    .fine = false,
                                    .queries = 16,
                                    .panels = 1,
                                    .ctas_per_sm = 2},
                                   {.kernel = KernelId::search_scan_64,
                                    .fine = false,
                                    .queries = 64,
                                    .panels = 4,
                                    .ctas_per_sm = 1}};

/// Returns the number of blocks per query, rounded up to a multiple of those in flight.
std::int64_t query_blocks(std::int64_t stride) {
  return divide_up(stride, kBlockBytes * row_search::kAhead) * row_search::kAhead;
}

// Kernels count tiles in 32 bits.
constexpr std::int64_t kMaxTiles = std::int64_t{1} << 30;

std::size_t shared_bytes(const ScanPlan& plan, std::int64_t stride) {
  return static_cast<std::size_t>(row_search::scan_shared_bytes(
      static_cast<int>(plan.panels), static_cast<int>(plan.queries), query_blocks(stride)));
}

bool fits(const ScanPlan& plan, const SearchProblem& problem, const DeviceInfo& device) {
  return shared_bytes(plan, problem.stride) <= device.shared_bytes_per_block;
}

row_search::Rows kernel_rows(const SearchRows& rows) {
  return {.codes = pointer<const std::uint8_t>(rows.codes),
          .terms = pointer<const row_search::RowTerms>(rows.terms),
          .count = rows.count,
          .stride = static_cast<std::int32_t>(rows.stride),
          .tiles = static_cast<std::int32_t>(search_tiles(rows.count))};
}

}  // namespace

std::int64_t search_tiles(std::int64_t rows) {
  return divide_up(rows, row_search::kTileRows);
}

std::int64_t search_code_bytes(std::int64_t rows, std::int64_t stride) {
  return search_tiles(rows) * row_search::kTileRows * stride + row_search::kBytesBeyond;
}

std::int64_t search_term_bytes(std::int64_t rows) {
  return search_tiles(rows) * row_search::kTileRows *
         static_cast<std::int64_t>(sizeof(row_search::RowTerms));
}

std::vector<std::int8_t> pack_queries(std::span<const std::int16_t> codes, std::int64_t stride,
                                      bool fine) {
  using row_search::kFineQueries;
  using row_search::kHigh;
  using row_search::kPanelLines;
  constexpr std::size_t kLaneBytes = 16;
  constexpr std::size_t kProductBytes = 32 * kLaneBytes;
  const std::int64_t blocks = query_blocks(stride);
  const std::int64_t count = static_cast<std::int64_t>(codes.size()) / stride;
  const std::int64_t queries_per_panel = fine ? kFineQueries : kPanelLines;
  std::vector<std::int8_t> packed(static_cast<std::size_t>(divide_up(count, queries_per_panel) *
                                                           blocks * row_search::kPanelBytes));
  // The position of each byte of the first line: four lanes hold 16 bytes of a block each, of which
  // the first product takes eight and the second product the other eight.
  std::vector<std::size_t> places(static_cast<std::size_t>(stride));
  for (std::size_t byte = 0; byte < places.size(); ++byte) {
    places[byte] = byte / kBlockBytes * row_search::kPanelBytes + byte % 16 / 8 * kProductBytes +
                   byte % kBlockBytes / 16 * kLaneBytes + byte % 8 / 4 * 8 + byte % 4;
  }
  for (std::int64_t query = 0; query < count; ++query) {
    // Eight lines have separate lanes; the other eight fill the words in between.
    std::int8_t* const panel =
        packed.data() + query / queries_per_panel * blocks * row_search::kPanelBytes;
    const auto line_at = [&](std::int64_t line) {
      return panel + line % kFineQueries * 4 * kLaneBytes + line / kFineQueries * 4;
    };
    const std::int16_t* const from = codes.data() + query * stride;
    std::int8_t* const line = line_at(query % queries_per_panel);
    std::int8_t* const second = fine ? line_at(query % queries_per_panel + kFineQueries) : nullptr;
    for (std::size_t byte = 0; byte < places.size(); ++byte) {
      const int code = from[byte];
      if (fine) {
        const int low = ((code + kHigh / 2) & (kHigh - 1)) - kHigh / 2;
        line[places[byte]] = static_cast<std::int8_t>((code - low) / kHigh);
        second[places[byte]] = static_cast<std::int8_t>(low);
      } else {
        line[places[byte]] = static_cast<std::int8_t>(code);
      }
    }
  }
  return packed;
}

std::string to_string(const SearchProblem& problem) {
  return fmt::format("{} queries in {} rows of {} bytes", problem.queries, problem.rows,
                     problem.stride);
}

Support can_run(const SearchProblem& problem, const DeviceInfo& device) {
  if (problem.rows < 1 || search_tiles(problem.rows) > kMaxTiles || problem.queries < 1 ||
      problem.stride < 1 || problem.stride % kBlockBytes != 0) {
    return {fmt::format("cannot search for {}", to_string(problem))};
  }
  if (!fits(kScanPlans[0], problem, device)) {
    return {fmt::format("codes of {} bytes are too long for the shared memory of {}, {} bytes",
                        problem.stride, device.name, device.shared_bytes_per_block)};
  }
  return has_kernel(kScanPlans[0].kernel, device);
}

ScanPlan plan_scan(const SearchProblem& problem, const DeviceInfo& device) {
  if (const Support support = can_run(problem, device); !support) {
    fail("{}", support.why);
  }
  ScanPlan chosen = kScanPlans[0];
  for (const ScanPlan& plan : kScanPlans) {
    if (fits(plan, problem, device)) {
      chosen = plan;
      if (problem.queries <= plan.queries) {
        break;
      }
    }
  }
  return chosen;
}

std::int64_t padded_queries(const ScanPlan& plan, std::int64_t queries) {
  return divide_up(queries, plan.queries) * plan.queries;
}

Launch scan_launch(const DeviceInfo& device, const ScanPlan& plan, const SearchRows& rows,
                   std::int64_t queries, const ScanOperands& operands) {
  const std::int64_t groups = divide_up(queries, plan.queries);
  const row_search::ScanParams params{
      .rows = kernel_rows(rows),
      .queries = pointer<const std::int8_t>(operands.queries),
      .query_terms = pointer<const row_search::QueryTerms>(operands.query_terms),
      .best = pointer<float>(operands.best),
      .blocks = static_cast<std::int32_t>(query_blocks(rows.stride)),
      .query_count = static_cast<std::int32_t>(queries),
      .groups = static_cast<std::int32_t>(groups)};
  // CTAs per group that the device holds at once.
  const std::int64_t resident =
      std::max<std::int64_t>(1, device.sm_count * plan.ctas_per_sm / groups);
  const std::int64_t workers =
      std::min(resident, divide_up(search_tiles(rows.count), row_search::kWarps));
  return {.kernel = plan.kernel,
          .config = {.grid = {.x = static_cast<std::uint32_t>(workers * groups)},
                     .block = {.x = row_search::kThreads},
                     .dynamic_shared_bytes = shared_bytes(plan, rows.stride),
                     .dependent = true},
          .params = to_bytes(params)};
}

std::string to_string(const PickProblem& problem) {
  return fmt::format(
      "the tiles with the {} best rows, of {} tiles, for {} queries: up to {}, starting at number "
      "{}",
      problem.rank, problem.tiles, problem.queries, problem.capacity, problem.skip);
}

Support can_run(const PickProblem& problem, const DeviceInfo& device) {
  if (problem.tiles < 1 || problem.tiles > kMaxTiles || problem.queries < 1 || problem.rank < 1 ||
      problem.capacity < 1 || problem.skip < 0) {
    return {"cannot list " + to_string(problem)};
  }
  return has_kernel(KernelId::search_pick, device);
}

Launch pick_launch(const DeviceInfo& device, const PickProblem& problem, DevicePtr best,
                   DevicePtr picked) {
  if (const Support support = can_run(problem, device); !support) {
    fail("{}", support.why);
  }
  const row_search::PickParams params{
      .best = pointer<const float>(best),
      .picked = pointer<std::int32_t>(picked),
      .tiles = static_cast<std::int32_t>(problem.tiles),
      .rank = static_cast<std::int32_t>(std::min(problem.rank, kMaxTiles + 1)),
      .skip = static_cast<std::int32_t>(problem.skip),
      .capacity = static_cast<std::int32_t>(problem.capacity)};
  return {.kernel = KernelId::search_pick,
          .config = {.grid = {.x = static_cast<std::uint32_t>(problem.queries)},
                     .block = {.x = row_search::kPickThreads},
                     .dynamic_shared_bytes = row_search::kPickSharedBytes,
                     .dependent = true},
          .params = to_bytes(params)};
}

Launch bounds_launch(const DeviceInfo& device, const SearchRows& rows, std::int64_t pairs,
                     const BoundsOperands& operands) {
  constexpr std::int64_t kCtasPerSm = 2;
  const row_search::BoundsParams params{
      .rows = kernel_rows(rows),
      .queries = pointer<const std::int8_t>(operands.queries),
      .query_terms = pointer<const row_search::QueryTerms>(operands.query_terms),
      .pairs = pointer<const row_search::Pair>(operands.pairs),
      .bounds = pointer<row_search::Bounds>(operands.bounds),
      .blocks = static_cast<std::int32_t>(query_blocks(rows.stride)),
      .pair_count = static_cast<std::int32_t>(pairs)};
  return {
      .kernel = KernelId::search_bounds,
      .config = resident_grid(pairs, row_search::kWarps, row_search::kThreads, kCtasPerSm, device),
      .params = to_bytes(params)};
}

}  // namespace fovea::gpu
