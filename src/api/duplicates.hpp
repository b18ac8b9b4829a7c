// The search for duplicates in a Collection.
#pragma once

#include "api/photo_files.hpp"
#include "core/thread_pool.hpp"
#include "fovea/search.hpp"
#include "search/shards.hpp"

namespace fovea {

struct CollectionParts {
  const search::Shards& shards;
  const PhotoFiles& files;
  ThreadPool& pool;
  const SearchProgress& on_progress;
};

/// See Collection::duplicates.
[[nodiscard]] Duplicates find_duplicates(const CollectionParts& parts,
                                         const DuplicateOptions& options);

}  // namespace fovea
