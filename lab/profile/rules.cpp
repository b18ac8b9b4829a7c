// Defines the rules, and determines which of them apply.
#include "lab/profile/rules.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

// Rules about waiting require that the units are not busy, since waiting is harmless otherwise.
constexpr Condition kMatrixNotBusy = {"matrix_units", '<', 0.8};
constexpr Condition kMemoryNotBusy = {"dram", '<', 0.7};
constexpr Condition kCacheNotBusy = {"l2", '<', 0.8};

/// Returns the rules about warp stalls.
std::vector<Rule> stall_rules() {
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
       .means = "stores are scattered: the path to L2 carries partially used sectors",
       .attempt = "stage the tile through shared memory and store it by TMA, or give each lane "
                  "adjacent columns",
       .parameter = "vector"},
      {.name = "too few warps",
       .all = {{"stall_long_scoreboard", '>', 0.3},
               {"stall_not_selected", '<', 0.05},
               kMatrixNotBusy,
               kMemoryNotBusy,
               kCacheNotBusy},
       .strength = {{"stall_long_scoreboard", 0.3, 1.2}},
       .means = "warps wait for data from global memory, and too few other warps hide the latency",
       .attempt = "prefetch data with known addresses (bias, position); more stages; more CTAs "
                  "per SM",
       .parameter = "ahead, stages, ctas_per_sm"},
      {.name = "fewer stages than the latency",
       .all = {kMatrixNotBusy, kMemoryNotBusy},
       .any = {{"full_wait", '>', 0.08}, {"copy_wait", '>', 0.08}},
       .strength = {{"full_wait", 0.08, 0.2}, {"copy_wait", 0.08, 0.2}},
       .means = "the ring is empty when consumers need data: copies start too late",
       .attempt = "more stages, or smaller ones so that more fit",
       .parameter = "stages, key_slots, tile_slots"},
      {.name = "roles out of step",
       .all = {{"barrier_wait", '>', 0.1}, kMatrixNotBusy, kMemoryNotBusy},
       .strength = {{"barrier_wait", 0.1, 0.4}},
       .means = "warps wait for each other at barriers",
       .attempt = "more stages, a finer hand-over, named barriers between pairs of warpgroups",
       .parameter = "stages, warps, kv_tile"},
      {.name = "slow epilogue",
       .all = {{"epilogue_share", '>', 0.2},
               {"epilogue_wait", '>', 0.4},
               kMatrixNotBusy,
               kMemoryNotBusy},
       .strength = {{"epilogue_share", 0.2, 0.6}},
       .means = "the epilogue is a chain of dependent shared-memory accesses",
       .attempt = "wider stores, two rows in flight",
       .parameter = "vector, ahead"},
      {.name = "fences in the loop",
       .all = {{"fences", '>', 0}},
       .any = {{"stall_membar", '>', 0.05}, {"fence_wait", '>', 0.08}},
       .strength = {{"stall_membar", 0.05, 0.25}, {"fence_wait", 0.08, 0.3}},
       .means = "warps wait at a fence",
       .attempt = "one proxy fence per tile, outside the inner loop, with the narrowest scope",
       .parameter = ""},
      {.name = "narrow global accesses",
       .all = {{"stall_lg_throttle", '>', 0.1}},
       .strength = {{"stall_lg_throttle", 0.1, 0.8}},
       .means = "too many narrow accesses fill the queue to global memory",
       .attempt = "accesses of 16 or 32 bytes",
       .parameter = "vector"},
  };
}

/// Returns the rules about limits that apply independently of stalls.
std::vector<Rule> limit_rules() {
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
       .attempt =
           "an order of tiles with more L2 hits (snake, groups), smaller types, fusion with the "
           "preceding or the following kernel",
       .parameter = "raster"},
      {.name = "bank conflicts",
       .all = {{"shared_busy", '>', 0.05}},
       // The hardware counter also includes waits for TMA and the matrix units.
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
               kMatrixNotBusy,
               kMemoryNotBusy,
               kCacheNotBusy},
       .strength = {{"registers", 96, 255}},
       .weight = 0.3,  // intended in warp-specialised kernels for Hopper
       .means = "registers limit an SM to one CTA, and its warps are rarely eligible",
       .attempt = "a smaller tile, setmaxnreg, fewer accumulators",
       .parameter = "columns, consumers, kv_tile"},
      {.name = "grid smaller than the GPU",
       .all = {{"waves", '<', 0.7}},
       .strength = {{"waves", 0.7, 0}},
       .means = "the grid has fewer CTAs than fit into the SMs",
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

bool is_met(const Condition& condition, const Profile& profile) {
  if (!known(condition.figure)) {
    fail("a rule refers to an unknown figure '{}'", condition.figure);
  }
  const auto match = profile.figures.find(condition.figure);
  return match != profile.figures.end() &&
         (condition.sense == '>' ? match->second > condition.limit
                                 : match->second < condition.limit);
}

double rule_strength(const Rule& rule, const Profile& profile) {
  double strength = 0;
  for (const Certainty& certainty : rule.strength) {
    const auto match = profile.figures.find(certainty.figure);
    if (match != profile.figures.end()) {
      strength = std::max(
          strength, (match->second - certainty.limit) / (certainty.certain - certainty.limit));
    }
  }
  return rule.weight * std::clamp(strength, 0.0, 1.0);
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list = stall_rules();
    std::ranges::move(limit_rules(), std::back_inserter(list));
    return list;
  }();
  return all;
}

std::vector<Finding> findings(const Profile& profile) {
  std::vector<Finding> results;
  for (const Rule& rule : rules()) {
    Finding finding{.rule = &rule, .strength = rule_strength(rule, profile)};
    bool applies = true;
    for (const Condition& condition : rule.all) {
      applies = is_met(condition, profile) && applies;
      if (applies) {
        finding.seen.emplace_back(condition.figure, profile[condition.figure]);
      }
    }
    bool one_is = rule.any.empty();
    for (const Condition& condition : rule.any) {
      if (is_met(condition, profile)) {
        one_is = true;
        const std::pair<std::string_view, double> seen(condition.figure, profile[condition.figure]);
        if (std::ranges::find(finding.seen, seen) == finding.seen.end()) {
          finding.seen.push_back(seen);
        }
      }
    }
    if (applies && one_is) {
      results.push_back(std::move(finding));
    }
  }
  sort_largest_first(results, &Finding::strength);
  return results;
}

std::string figure_in_words(std::string_view name, double value) {
  const auto named = [&](const FigureInfo& info) { return info.name == name; };
  const auto info = std::ranges::find_if(figures(), named);
  const bool share = info == figures().end() || info->share;
  return share ? fmt::format("{} {:.1f}%", name, 100 * value)
               : fmt::format("{} {:.4g}", name, value);
}

}  // namespace fovea::lab
