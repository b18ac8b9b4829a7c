// Quantiles of a few values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace fovea {

/// Returns the quantile for `share`: the minimum for 0, the median for 0.5. Interpolates linearly
/// between two values, as numpy.quantile does. NaN when a value is NaN. `values` must not be empty.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::ranges::sort(values);
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - std::floor(position));
}

}  // namespace fovea
