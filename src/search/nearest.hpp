// Exact nearest neighbours, found in one pass over all rows for all queries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.hpp"
#include "fovea/search.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// See Collection::nearest.
[[nodiscard]] std::vector<std::vector<Match>> nearest(const Shards& shards, ThreadPool& pool,
                                                      std::span<const float> queries, int k,
                                                      std::span<const std::int64_t> left_out,
                                                      const SearchProgress& progress);

}  // namespace fovea::search
