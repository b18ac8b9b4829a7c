// The figures in a profile, by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fovea::lab {

/// A figure in a profile. Rules, gates and comparisons refer to it by its name.
struct FigureInfo {
  std::string_view name;     // "dram"
  std::string_view meaning;  // "share of the device memory's peak bandwidth"
  bool share = false;        // whether it is a share, from 0 to 1
};
/// Returns the figures that all profiles have.
[[nodiscard]] const std::vector<FigureInfo>& figures();
/// Returns the figures that only profiles with source locations have.
[[nodiscard]] std::span<const FigureInfo> figures_of_places();

/// A figure that is computed from one counter, or as the ratio of two.
struct FigureSource {
  FigureInfo info;
  std::string_view counter;
  std::string_view per = {};
};
/// Returns the sources of the figures that are counters or ratios of counters.
[[nodiscard]] std::span<const FigureSource> figure_sources();

}  // namespace fovea::lab
