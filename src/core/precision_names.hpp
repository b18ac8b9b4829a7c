// The names of the precisions that satisfy a condition.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/precision.hpp"

namespace fovea {

/// `condition`: a pointer to a member of PrecisionInfo (&PrecisionInfo::calibrated), or a
/// predicate.
template <typename Condition>
[[nodiscard]] std::vector<std::string> precision_names(const Condition& condition) {
  std::vector<std::string> names;
  for (const PrecisionInfo& info : kPrecisions) {
    if (std::invoke(condition, info)) {
      names.emplace_back(info.name);
    }
  }
  return names;
}

/// The names of all precisions, "auto" first.
[[nodiscard]] inline std::vector<std::string> precision_names() {
  return precision_names([](const PrecisionInfo&) { return true; });
}

}  // namespace fovea
