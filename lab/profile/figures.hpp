// The figures in a profile, by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fovea::lab {

/// A figure in a profile; rules, gates and comparisons refer to it by name.
struct FigureInfo {
  std::string_view name;     // "dram"
  std::string_view meaning;  // "of the device memory's peak"
  bool share = false;        // a share, from 0 to 1
};
/// Returns all figures that every profile has.
[[nodiscard]] const std::vector<FigureInfo>& figures();
/// Returns the figures that only profiles with source locations have.
[[nodiscard]] std::span<const FigureInfo> figures_of_places();

/// A figure that is a counter, or the ratio of two counters.
struct FigureSource {
  FigureInfo info;
  std::string_view counter;
  std::string_view per = {};
};
/// Returns the sources of the figures that are computed from counters alone.
[[nodiscard]] std::span<const FigureSource> figure_sources();

}  // namespace fovea::lab
