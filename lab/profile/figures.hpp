// The numbers that a profile gives, by their names.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fovea::lab {

/// A number that a profile gives: rules, gates and comparisons know it by its name.
struct FigureInfo {
  std::string_view name;     // "dram"
  std::string_view meaning;  // "of the device memory's peak"
  bool share = false;        // from 0 to 1
};
/// All of them: each is in every profile.
[[nodiscard]] const std::vector<FigureInfo>& figures();
/// Figures that only a profile with places has.
[[nodiscard]] std::span<const FigureInfo> figures_of_places();

/// A figure that is a counter, or one by another.
struct FigureSource {
  FigureInfo info;
  std::string_view counter;
  std::string_view per = {};
};
/// Sources of the figures that are made of counters alone.
[[nodiscard]] std::span<const FigureSource> figure_sources();

}  // namespace fovea::lab
