// Merges outputs; fovea/merge.hpp describes it.
#pragma once

#include "fovea/merge.hpp"

namespace fovea::collection {

/// merge_outputs, but throws Interrupted when it is stopped.
[[nodiscard]] MergeReport merge(const MergeOptions& options);

}  // namespace fovea::collection
