// Which shards of jobs are among the outputs of a merge.
#pragma once

#include <span>
#include <string>

#include "pipeline/manifest.hpp"

namespace fovea::collection {

/// An output by what its manifest says.
struct GivenOutput {
  std::string shown;
  const pipeline::JobIdentity* identity = nullptr;
};

/// The shards that are missing; none when all outputs of shards are those of whole jobs. Throws
/// fovea::Error that names the missing shards, unless `partial` is set, and in any case when shards
/// of several jobs are missing, when one is there more often than others, or when too many are
/// missing to be listed.
[[nodiscard]] pipeline::MissingShards find_missing(std::span<const GivenOutput> outputs,
                                                   bool partial);

}  // namespace fovea::collection
