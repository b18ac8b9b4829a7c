// Finds missing and duplicate shards among the outputs of a merge.
#pragma once

#include <span>
#include <string>

#include "pipeline/manifest.hpp"

namespace fovea::collection {

/// The shards of an output, from its manifest.
struct GivenOutput {
  std::string shown;
  const pipeline::JobIdentity* identity = nullptr;
};

/// Returns the missing shards; none when all jobs are complete. Throws fovea::Error that names the
/// missing shards unless `partial` is set; and always when shards of several jobs are missing, when
/// one occurs more often than others, or when too many are missing to be listed.
[[nodiscard]] pipeline::MissingShards find_missing(std::span<const GivenOutput> outputs,
                                                   bool partial);

}  // namespace fovea::collection
