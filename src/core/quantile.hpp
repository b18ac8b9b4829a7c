// Quantiles of a few values, the same way everywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace fovea {

/// The value that this share of the others lies below: 0 is the least, 0.5 the median. Between two
/// values it is interpolated, as numpy.quantile does it. NaN when a value is. Of one or more.
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
