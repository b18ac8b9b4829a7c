// Finds missing and duplicate shards among the outputs of a merge.
#pragma once

#include <span>
#include <string>

#include "pipeline/manifest.hpp"

namespace fovea::collection {

/// An output to merge. Its identity says which shards it has.
struct ShardOutput {
  std::string display_path;  // its name in messages
  const pipeline::JobIdentity* identity = nullptr;
};

/// Returns the missing shards; none when all jobs are complete. Throws fovea::Error naming the
/// missing shards unless `partial` is set, and in any case when shards of several jobs are missing,
/// when a shard occurs more often than others, or when too many are missing to be listed.
[[nodiscard]] pipeline::MissingShards find_missing_shards(std::span<const ShardOutput> outputs,
                                                          bool partial);

}  // namespace fovea::collection
