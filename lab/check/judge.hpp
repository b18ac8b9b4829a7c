// Expected values of a workload's output, tile by tile: exact values, and those of a framework.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/cards/card.hpp"
#include "lab/cards/workload.hpp"
#include "ops/reference/judge.hpp"

namespace fovea::lab {

using ops::reference::judge;
using ops::reference::kTile;
using ops::reference::sample_tiles;

/// Number of output tiles that are compared before timing.
inline constexpr std::size_t kTilesBeforeTiming = 24;
using ops::reference::TileValues;
using ops::reference::unit_in_last_place;
using ops::reference::Verdict;
using ops::reference::wrong_nan;

/// Computes the expected values of these tiles, on all CPUs.
[[nodiscard]] std::vector<TileValues> expectations(const Workload& workload,
                                                   std::span<const Tile> tiles);
/// Computes the expected values of at most `max_tiles` sampled tiles.
[[nodiscard]] std::vector<TileValues> expectations(const Workload& workload, std::size_t max_tiles,
                                                   std::uint64_t seed);
/// Replaces the kernel's output by the result that the host computes for `workload` in the kernel's
/// precision.
void fill_emulated(const Workload& workload, std::span<TileValues> tiles);
/// Replaces the kernel's output by the exact values, rounded once, as from a kernel without any
/// other error.
void fill_rounded(const Workload& workload, std::span<TileValues> tiles);

/// Returns copies of the outputs with mistakes that the check of every card must detect: a zeroed
/// tile, and an unwritten tile.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<TileValues>>> spoiled_outputs(
    std::span<const TileValues> correct_values);

}  // namespace fovea::lab
