// Numbers of results, which anybody may have written: those that something can measure.
#pragma once

#include <cmath>
#include <string_view>

#include "core/error.hpp"

namespace fovea::lab {

/// The value. Throws fovea::Error that names its key where nothing measures such a number: what is
/// made of it would be infinite.
inline double measurable(double value, std::string_view key) {
  constexpr double kMost = 1e30;
  const double size = std::abs(value);
  if (!(size <= kMost) || (size > 0 && size < 1 / kMost)) {
    fail("its \"{}\" is {:g}, which nothing measures", key, value);
  }
  return value;
}

}  // namespace fovea::lab
