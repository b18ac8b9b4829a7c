// Merges outputs; fovea/merge.hpp describes it.
#pragma once

#include "fovea/merge.hpp"

namespace fovea::collection {

/// Implements merge_outputs(); throws Interrupted when it is stopped.
[[nodiscard]] MergeReport merge(const MergeOptions& options);

}  // namespace fovea::collection
