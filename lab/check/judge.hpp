// What a workload's output is judged against: the exact values and a framework's, tile by tile.
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

/// Tiles of an output that are compared before anything is timed.
inline constexpr std::size_t kTilesBeforeTiming = 24;
using ops::reference::TileValues;
using ops::reference::unit_in_last_place;
using ops::reference::Verdict;
using ops::reference::wrong_nan;

/// Fills the expectations of these tiles, on all CPUs.
[[nodiscard]] std::vector<TileValues> expectations(const Workload& workload,
                                                   std::span<const Tile> tiles);
/// The same of tiles that are sampled, so many at the most.
[[nodiscard]] std::vector<TileValues> expectations(const Workload& workload, std::size_t most_tiles,
                                                   std::uint64_t seed);
/// What `workload` gives in its own precision, put in place of the kernel's output.
void fill_emulated(const Workload& workload, std::span<TileValues> tiles);
/// The exact values, rounded once to what the output can hold: a kernel without any other error.
void fill_rounded(const Workload& workload, std::span<TileValues> tiles);

/// Mistakes every card must notice, made in a right output: a zeroed tile, one never written.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<TileValues>>> spoiled(
    std::span<const TileValues> right);

}  // namespace fovea::lab
