// Defines the rules, and evaluates which of them fire.
#include "lab/profile/rules.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

// Waiting is harmless while a unit is busy, so rules about waiting require that the unit has
// capacity left.
constexpr Condition kMatrixRoom = {"matrix_units", '<', 0.8};
constexpr Condition kMemoryRoom = {"dram", '<', 0.7};
constexpr Condition kCacheRoom = {"l2", '<', 0.8};

/// Returns the rules about warp stalls.
std::vector<Rule> rules_of_waiting() {
  return {
      {.name = "scattered stores",
       .all = {{"global_stores", '>', 0},
               {"bytes_per_store_sector", '<', 20},
               {"write_path", '>', 0.1}},
       .any = {{"stall_mio_throttle", '>', 0.1},
               {"stall_drain", '>', 0.1},
               {"stall_lg_throttle", '>', 0.1},
               {"write_path", '>', 0.3}},
       .strength = {{"bytes_per_store_sector", 20, 6}},
       .means = "stores are scattered: the path to L2 carries sectors of which a part is used",
       .attempt = "stage the tile through shared memory and store it by TMA, or give each lane "
                  "adjacent columns",
       .parameter = "vector"},
      {.name = "too few warps",
       .all = {{"stall_long_scoreboard", '>', 0.3},
               {"stall_not_selected", '<', 0.05},
               kMatrixRoom,
               kMemoryRoom,
               kCacheRoom},
       .strength = {{"stall_long_scoreboard", 0.3, 1.2}},
       .means = "warps wait for data from global memory, and too few others hide it",
       .attempt = "prefetch what is known before the loop (bias, position); more stages; more CTAs "
                  "per SM",
       .parameter = "ahead, stages, ctas_per_sm"},
      {.name = "fewer stages than the latency",
       .all = {kMatrixRoom, kMemoryRoom},
       .any = {{"full_wait", '>', 0.08}, {"copy_wait", '>', 0.08}},
       .strength = {{"full_wait", 0.08, 0.2}, {"copy_wait", 0.08, 0.2}},
       .means = "the ring is empty when consumers need data: copies start too late",
       .attempt = "more stages, or smaller ones so that more fit",
       .parameter = "stages, key_slots, tile_slots"},
      {.name = "roles out of step",
       .all = {{"barrier_wait", '>', 0.1}, kMatrixRoom, kMemoryRoom},
       .strength = {{"barrier_wait", 0.1, 0.4}},
       .means = "warps wait for each other at barriers",
       .attempt = "more stages, a finer hand-over, named barriers between pairs of warpgroups",
       .parameter = "stages, warps, kv_tile"},
      {.name = "slow epilogue",
       .all = {{"epilogue_share", '>', 0.2}, {"epilogue_wait", '>', 0.4}, kMatrixRoom, kMemoryRoom},
       .strength = {{"epilogue_share", 0.2, 0.6}},
       .means = "the epilogue is a chain of dependent shared-memory accesses",
       .attempt = "wider stores, two rows in flight",
       .parameter = "vector, ahead"},
      {.name = "fences in the loop",
       .all = {{"fences", '>', 0}},
       .any = {{"stall_membar", '>', 0.05}, {"fence_wait", '>', 0.08}},
       .strength = {{"stall_membar", 0.05, 0.25}, {"fence_wait", 0.08, 0.3}},
       .means = "warps wait at a fence",
       .attempt = "one proxy fence a tile, outside the inner loop, of the narrowest scope",
       .parameter = ""},
      {.name = "narrow global accesses",
       .all = {{"stall_lg_throttle", '>', 0.1}},
       .strength = {{"stall_lg_throttle", 0.1, 0.8}},
       .means = "too many narrow accesses fill the queue to global memory",
       .attempt = "accesses of 16 bytes, or of 32",
       .parameter = "vector"},
  };
}

/// Returns the rules about limits that exist independently of stalls.
std::vector<Rule> rules_of_limits() {
  return {
      {.name = "tails everywhere",
       .all = {{"predicated_off", '>', 0.1}},
       .strength = {{"predicated_off", 0.1, 0.4}},
       .means = "threads issue instructions that are predicated off",
       .attempt = "peel the last tile, so that whole tiles need no bounds checks",
       .parameter = "columns, kv_tile"},
      {.name = "bound by memory",
       .all = {{"dram", '>', 0.8}, {"matrix_units", '<', 0.4}},
       .strength = {{"dram", 0.8, 0.95}},
       .means = "device memory is the limit, and the matrix units wait for it",
       .attempt = "an order of tiles that L2 keeps (snake, groups), smaller types, fusing with the "
                  "preceding or the following kernel",
       .parameter = "raster"},
      {.name = "bank conflicts",
       .all = {{"shared_busy", '>', 0.05}},
       // The hardware's count includes waits for TMA and the matrix units.
       .any = {{"layout_conflict_share", '>', 0.05}, {"bank_conflict_share", '>', 0.25}},
       .strength = {{"layout_conflict_share", 0.05, 0.4}, {"bank_conflict_share", 0.25, 0.6}},
       .means = "lanes of a warp access the same banks of shared memory",
       .attempt = "swizzle the layout by exclusive-or, or pad its rows",
       .parameter = ""},
      {.name = "spilled registers",
       .all = {{"spill_share", '>', 0}},
       .strength = {{"spill_share", -0.01, 0.02}},
       .means = "there are too few registers, so values are spilled to local memory",
       .attempt = "a smaller tile, fewer accumulators at a time, fewer CTAs per SM, setmaxnreg",
       .parameter = "ctas_per_sm, columns, score_keys, held_queries"},
      {.name = "one CTA per SM",
       .all = {{"ctas_per_sm", '<', 2},
               {"ctas_per_sm_registers", '<', 2},
               {"eligible_warps", '<', 0.5},
               {"waves", '>', 0.7},
               kMatrixRoom,
               kMemoryRoom,
               kCacheRoom},
       .strength = {{"registers", 96, 255}},
       .weight = 0.3,  // Hopper's warp-specialised kernels are designed that way
       .means = "registers limit an SM to one CTA, and its warps are rarely eligible",
       .attempt = "a smaller tile, setmaxnreg, fewer accumulators",
       .parameter = "columns, consumers, kv_tile"},
      {.name = "grid smaller than the GPU",
       .all = {{"waves", '<', 0.7}},
       .strength = {{"waves", 0.7, 0}},
       .means = "the SMs have room for more CTAs than the grid has",
       .attempt = "smaller tiles, or a split of the inner dimension",
       .parameter = "warps, columns, ctas_per_sm"},
      {.name = "bound by instructions",
       .all = {{"issue", '>', 0.7}, {"matrix_units", '<', 0.4}},
       .strength = {{"issue", 0.7, 1.0}},
       .means = "schedulers issue nearly every cycle, and few instructions are products",
       .attempt = "larger tiles for each warp, wider loads, cheaper conversions and exponentials",
       .parameter = "held_queries, score_keys, kv_tile"},
  };
}

bool known(std::string_view figure) {
  const auto named = [&](const FigureInfo& info) { return info.name == figure; };
  return std::ranges::any_of(figures(), named) || std::ranges::any_of(figures_of_places(), named) ||
         figure.starts_with("stall_");
}

bool met(const Condition& condition, const Profile& profile) {
  if (!known(condition.figure)) {
    fail("a rule refers to the figure '{}', which does not exist", condition.figure);
  }
  const auto found = profile.figures.find(condition.figure);
  return found != profile.figures.end() &&
         (condition.sense == '>' ? found->second > condition.limit
                                 : found->second < condition.limit);
}

double strength_of(const Rule& rule, const Profile& profile) {
  double strength = 0;
  for (const Certainty& certainty : rule.strength) {
    const auto found = profile.figures.find(certainty.figure);
    if (found != profile.figures.end()) {
      strength = std::max(
          strength, (found->second - certainty.limit) / (certainty.certain - certainty.limit));
    }
  }
  return rule.weight * std::clamp(strength, 0.0, 1.0);
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list = rules_of_waiting();
    std::ranges::move(rules_of_limits(), std::back_inserter(list));
    return list;
  }();
  return all;
}

std::vector<Finding> findings(const Profile& profile) {
  std::vector<Finding> found;
  for (const Rule& rule : rules()) {
    Finding finding{.rule = &rule, .strength = strength_of(rule, profile)};
    bool fires = true;
    for (const Condition& condition : rule.all) {
      fires = met(condition, profile) && fires;
      if (fires) {
        finding.seen.emplace_back(condition.figure, profile[condition.figure]);
      }
    }
    bool one_is = rule.any.empty();
    for (const Condition& condition : rule.any) {
      if (met(condition, profile)) {
        one_is = true;
        const std::pair<std::string_view, double> seen(condition.figure, profile[condition.figure]);
        if (std::ranges::find(finding.seen, seen) == finding.seen.end()) {
          finding.seen.push_back(seen);
        }
      }
    }
    if (fires && one_is) {
      found.push_back(std::move(finding));
    }
  }
  sort_largest_first(found, &Finding::strength);
  return found;
}

std::string figure_in_words(std::string_view name, double value) {
  const auto named = [&](const FigureInfo& info) { return info.name == name; };
  const auto info = std::ranges::find_if(figures(), named);
  const bool share = info == figures().end() || info->share;
  return share ? fmt::format("{} {:.1f}%", name, 100 * value)
               : fmt::format("{} {:.4g}", name, value);
}

}  // namespace fovea::lab
