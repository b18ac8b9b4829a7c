// Computes the work of GEMMs, attention and row-wise kernels.
#include "lab/predict/kernel_work.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/gemm.hpp"
#include "gpu/launch/gemm_plan.hpp"
#include "kernels/variants.hpp"
#include "lab/cards/attention_workload.hpp"
#include "lab/cards/gemm_workload.hpp"
#include "lab/evolve/candidate.hpp"

namespace fovea::lab {
namespace {

using gpu::GemmDesign;
using gpu::GemmPlan;
using gpu::GemmProblem;
using ops::AttentionProblem;

/// Width of counted GEMMs, a multiple of all kernels' tiles.
constexpr std::int64_t kCountedColumns = 768;
constexpr std::int64_t kCountedTokens = 4;  // rows of the position table in counted GEMMs
/// Maximal number of queries for counting, for which the emulator takes seconds.
constexpr std::int64_t kMaxCountedQueries = 1024;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

double count_tiles(std::int64_t m, std::int64_t n, const GemmPlan& plan) {
  return number(gpu::tile_count({.m = m, .n = n}, plan));
}

/// Returns the number of panels of A that the pairs of CTAs load if each of them computes an equal,
/// contiguous part of the tiles in row-major order.
double panel_loads(double tiles, std::int64_t column_tiles, std::int64_t pairs) {
  const auto count = static_cast<std::int64_t>(tiles);
  const std::int64_t parts = std::min(pairs, count);
  std::int64_t loads = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = count * part / parts;
    const std::int64_t last = count * (part + 1) / parts - 1;
    loads += last / column_tiles - first / column_tiles + 1;
  }
  return number(loads);
}

KernelWork gemm_work(const GemmProblem& problem, const GemmPlan& plan, const Workload& workload,
                     int sms) {
  KernelWork work;
  work.units = {"tile", ""};
  const double tiles = count_tiles(problem.m, problem.n, plan);
  work.sizes = {tiles, 0};
  const bool position = problem.epilogue == gpu::GemmEpilogue::kPosition;
  for (std::size_t i = 0; i < work.counted.size(); ++i) {
    const std::int64_t rows = (i == 0 ? 4 : 8) * plan.rows();
    work.counted.at(i) = {
        .fields = fmt::format("m={},n={},k={}{}", rows, kCountedColumns, problem.k,
                              position ? fmt::format(",tokens={}", kCountedTokens) : ""),
        .sizes = {count_tiles(rows, kCountedColumns, plan), 0}};
  }
  const bool is_stationary = plan.design == GemmDesign::kBStationary;
  const bool is_alternating = is_stationary || plan.design == GemmDesign::kPingPong;
  work.pieces = tiles;
  work.chains = tiles;
  work.chain_warps = is_alternating ? 4.0 : 4.0 * plan.consumers;
  work.in_flight = is_alternating
                       ? plan.consumers
                       : gpu::design_traits(plan.design).ctas_per_sm(plan, assumed_device());
  if (plan.design == GemmDesign::kPair) {
    constexpr double kDepthBytes = 32;  // bytes of K per step
    work.chain_warps = 8;
    work.chain_multiplies = false;
    const double rows = 2.0 * plan.rows();
    work.step_products =
        rows * plan.columns * kDepthBytes / static_cast<double>(size_of(problem.a));
    work.step_passes = (rows + plan.columns) * kDepthBytes / 128;
  }

  const double k_bytes = number(gpu::k_bytes(problem));
  const std::int64_t column_tiles = divide_up(problem.n, plan.columns);
  const double rows_of_b = is_stationary ? 0.0 : static_cast<double>(plan.columns);
  const double loads_of_a =
      plan.design == GemmDesign::kPair && plan.k_blocks > 0
          ? panel_loads(tiles / plan.cluster(), column_tiles, sms / 2) * plan.cluster()
          : tiles;
  work.l2_read_bytes = (loads_of_a * plan.rows() + tiles * rows_of_b / plan.cluster()) * k_bytes;
  const double written = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                         static_cast<double>(size_of(problem.output));
  work.l2_write_bytes = written;
  work.dram_bytes = static_cast<double>(workload.bytes());
  work.is_integer = problem.b == DType::kI8;
  work.is_wide = problem.a == DType::kBF16;
  work.l2_read_bytes += problem.epilogue == gpu::GemmEpilogue::kResidual ? written : 0;
  if (is_stationary) {
    // CTAs with different panels read the same rows at the same time only if all panels have the
    // same number of CTAs. Otherwise A is read once per distinct phase.
    const double passes = number(column_tiles / std::gcd(column_tiles, std::int64_t{sms}));
    work.dram_bytes += (passes - 1) * static_cast<double>(problem.m) * k_bytes;
  }
  return work;
}

std::optional<GemmPlan> find_gemm_plan(std::string_view kernel) {
  for (const gpu::GemmVariant& variant : gpu::kGemmVariants) {
    if (gpu::info_of(variant.kernel).name == kernel) {
      GemmPlan plan{variant.tuning};
      plan.kernel = variant.kernel;
      plan.staging =
          plan.design == GemmDesign::kPingPong && plan.epilogue == epilogue::Kind::kResidual;
      return plan;
    }
  }
  return std::nullopt;
}

/// Tiling of an attention kernel.
struct AttentionTiling {
  std::int64_t rows = 64;       // queries per chain
  std::int64_t keys = 0;        // keys per block
  std::int64_t piece_rows = 0;  // queries that an SM processes at once
  double warps = 4;             // warps per chain
  double in_flight = 1;         // concurrent chains per SM
};

template <typename Variants>
auto* find_tuning(const Variants& variants, std::string_view kernel) {
  const auto match = std::ranges::find_if(variants, [&](const auto& variant) {
    return gpu::info_of(variant.bf16).name == kernel || gpu::info_of(variant.f16).name == kernel;
  });
  return match == variants.end() ? nullptr : &match->tuning;
}

std::optional<AttentionTiling> attention_tiling(const AttentionProblem& problem,
                                                std::string_view kernel, int sms) {
  if (const auto* const tuning = find_tuning(gpu::kSinglePassVariants, kernel); tuning != nullptr) {
    const bool whole = problem.batch * problem.heads >= sms;
    const std::int64_t rows = attention::kTileRows;
    return AttentionTiling{.rows = rows,
                           .keys = tuning->kv_tile,
                           .piece_rows = whole ? divide_up(problem.queries, rows) * rows : rows,
                           .in_flight = static_cast<double>(tuning->consumers)};
  }
  if (const auto* const tuning = find_tuning(gpu::kOnlineVariants, kernel); tuning != nullptr) {
    return AttentionTiling{.rows = attention::kTileRows,
                           .keys = tuning->kv_tile,
                           .piece_rows = std::int64_t{attention::kTileRows} * tuning->consumers,
                           .in_flight = static_cast<double>(tuning->consumers)};
  }
  if (const auto* const tuning = find_tuning(gpu::kMmaVariants, kernel); tuning != nullptr) {
    return AttentionTiling{
        .rows = tuning->warp_rows,
        .keys = tuning->kv_tile,
        .piece_rows = std::int64_t{tuning->warp_rows} * tuning->row_groups,
        .warps = static_cast<double>(tuning->key_groups),
        .in_flight = static_cast<double>(tuning->row_groups) * tuning->ctas_per_sm};
  }
  return std::nullopt;
}

/// Returns the number of key blocks that the query tiles of a head attend to in total.
double count_attended_blocks(std::int64_t queries, std::int64_t keys, bool causal,
                             const AttentionTiling& tiling) {
  double attended_blocks = 0;
  for (std::int64_t row = 0; row < queries; row += tiling.piece_rows) {
    const std::int64_t rows = std::min(tiling.piece_rows, queries - row);
    const std::int64_t last = causal ? std::min(keys, keys - queries + row + rows) : keys;
    attended_blocks += static_cast<double>(divide_up(std::max<std::int64_t>(last, 0), tiling.keys) *
                                           divide_up(rows, tiling.rows));
  }
  return attended_blocks;
}

KernelWork attention_work(const AttentionProblem& problem, const AttentionTiling& tiling,
                          const Workload& workload) {
  KernelWork work;
  const double heads = static_cast<double>(problem.batch) * static_cast<double>(problem.heads);
  const double tiles = heads * static_cast<double>(divide_up(problem.queries, tiling.rows));
  const double attended_blocks =
      count_attended_blocks(problem.queries, problem.keys, problem.causal, tiling);
  const bool by_head = std::max(problem.queries, problem.keys) <= kMaxCountedQueries;
  work.units = by_head ? std::array<std::string_view, 2>{"head", ""}
                       : std::array<std::string_view, 2>{"tile of queries", "block of keys"};
  work.sizes = by_head ? WorkSizes{heads, 0} : WorkSizes{tiles, heads * attended_blocks};
  for (std::size_t i = 0; i < work.counted.size(); ++i) {
    const std::int64_t count = by_head && i > 0 ? 4 : 2;
    const std::int64_t queries = by_head ? problem.queries : i == 0 ? 512 : kMaxCountedQueries;
    const std::int64_t keys = by_head ? problem.keys : queries;
    work.counted.at(i) = {
        .fields = fmt::format("batch=1,heads={},queries={},keys={},width={},causal={},type={}",
                              count, queries, keys, problem.head_dim, problem.causal ? 1 : 0,
                              to_string(problem.type)),
        .sizes = by_head ? WorkSizes{number(count), 0}
                         : WorkSizes{number(count * divide_up(queries, tiling.rows)),
                                     number(count) * count_attended_blocks(
                                                         queries, keys, problem.causal, tiling)}};
  }
  work.pieces = heads * static_cast<double>(divide_up(problem.queries, tiling.piece_rows));
  work.chains = tiles;
  work.chain_warps = tiling.warps;
  work.in_flight = tiling.in_flight;
  const double row_bytes =
      static_cast<double>(problem.head_dim) * static_cast<double>(size_of(problem.type));
  const double queries = heads * static_cast<double>(problem.queries) * row_bytes;
  // Keys and values are loaded once per piece, which its chains share.
  const double chains_of_piece = number(tiling.piece_rows / tiling.rows);
  work.l2_read_bytes =
      queries + heads * attended_blocks / chains_of_piece * 2 * number(tiling.keys) * row_bytes;
  work.l2_write_bytes = queries;
  work.dram_bytes = static_cast<double>(workload.bytes());
  return work;
}

KernelWork rows_work(const Workload& workload) {
  KernelWork work;
  const double rows = static_cast<double>(workload.output().rows);
  const std::int64_t width = workload.inputs().front().columns();
  work.units = {"row", ""};
  work.sizes = {rows, 0};
  const std::int64_t few = width > 4096 ? 4 : 512;
  for (std::size_t i = 0; i < work.counted.size(); ++i) {
    const std::int64_t count = i == 0 ? few : 2 * few;
    work.counted.at(i) = {.fields = fmt::format("rows={},width={}", count, width),
                          .sizes = {number(count), 0}};
  }
  const OutputSpec output = workload.output();
  const double written = rows * number(output.columns) * static_cast<double>(size_of(output.type));
  work.dram_bytes = static_cast<double>(workload.bytes());
  work.l2_write_bytes = written;
  work.l2_read_bytes = std::max(0.0, work.dram_bytes - written);
  return work;
}

}  // namespace

bool has_plans(const Workload& workload) {
  return dynamic_cast<const GemmWorkload*>(&workload) != nullptr ||
         dynamic_cast<const AttentionWorkload*>(&workload) != nullptr;
}

KernelWork compute_work(const Workload& workload, std::string_view kernel, int sms) {
  if (const auto* const gemm = dynamic_cast<const GemmWorkload*>(&workload); gemm != nullptr) {
    if (const auto plan = find_gemm_plan(kernel); plan.has_value()) {
      return gemm_work(gemm->problem(), *plan, workload, sms);
    }
  } else if (const auto* const attention = dynamic_cast<const AttentionWorkload*>(&workload);
             attention != nullptr) {
    const auto& problem = attention->problem();
    if (const auto tiling = attention_tiling(problem, kernel, sms); tiling.has_value()) {
      return attention_work(problem, *tiling, workload);
    }
  } else if (workload.is_of_rows()) {
    return rows_work(workload);
  }
  fail("there is no model for {}{}", workload.describe(),
       kernel.empty() ? "" : fmt::format(" with '{}'", kernel));
}

}  // namespace fovea::lab
