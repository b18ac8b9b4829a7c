// Finds pairs and groups of similar rows by blocked products over all pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.hpp"
#include "fovea/search.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// The lengths of all rows, by row.
struct Lengths {
  std::vector<float> inverse;   // inverse_norms()
  std::vector<double> squared;  // squared_norm()
};

/// Throws fovea::Error when a row holds NaN or infinity.
[[nodiscard]] Lengths measure(const Shards& shards, ThreadPool& pool);

/// Returns the rows, in order, that have another row within `threshold`. Pairs are compared unless
/// both rows are known to have partners.
[[nodiscard]] std::vector<std::int64_t> rows_with_partners(const Shards& shards, ThreadPool& pool,
                                                           const Lengths& lengths, double threshold,
                                                           const SearchProgress& progress);

/// A kept row, and its members from the most similar on.
struct Group {
  std::int64_t kept = 0;
  std::vector<Match> members;  // scores are those to the kept row
};

/// `order`: rows, the preferred ones first. A row is kept when no kept row before it is within
/// `threshold`; every other row becomes a member of the kept row before it that is most similar to
/// it (the first of equally similar ones). Groups are in the order of their kept rows; rows without
/// members are left out.
[[nodiscard]] std::vector<Group> group_rows(const Shards& shards, ThreadPool& pool,
                                            const Lengths& lengths, double threshold,
                                            std::span<const std::int64_t> order);

/// A summary of all pairs within a group.
struct PairsWithin {
  double lowest = 1;       // the lowest cosine of two of the rows
  std::vector<bool> near;  // per row: another one is nearly equal
};

/// Compares every pair of the rows. Near equality is only estimated: exact equality is decided by
/// comparing the files.
[[nodiscard]] PairsWithin compare_within(const Shards& shards, ThreadPool& pool,
                                         const Lengths& lengths, std::span<const std::int64_t> rows,
                                         double nearly_equal);

}  // namespace fovea::search
