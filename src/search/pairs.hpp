// Finds pairs and groups of similar rows by blocked products of all rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/thread_pool.hpp"
#include "fovea/search.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// The lengths of all rows.
struct Lengths {
  std::vector<float> inverse;   // by inverse_norms()
  std::vector<double> squared;  // by squared_norm()
};

/// Computes the lengths. Throws fovea::Error when a row contains NaN or infinity.
[[nodiscard]] Lengths measure_lengths(const Shards& shards, ThreadPool& pool);

/// Returns the rows, in order, whose cosine with some other row reaches `threshold`. Pairs of rows
/// that are both known to have such a partner are not compared.
[[nodiscard]] std::vector<std::int64_t> rows_with_partners(const Shards& shards, ThreadPool& pool,
                                                           const Lengths& lengths, double threshold,
                                                           const SearchProgress& progress);

/// A kept row, and its members in descending order of similarity.
struct Group {
  std::int64_t kept = 0;
  std::vector<Match> members;  // with the cosines to the kept row
};

/// Groups similar rows. `order`: the rows, preferred ones first. A row is kept when its cosine with
/// every kept row before it is below `threshold`. Any other row becomes a member of the most
/// similar kept row before it (the first one of equally similar ones). Groups are in the order of
/// their kept rows; kept rows without members are omitted.
[[nodiscard]] std::vector<Group> group_rows(const Shards& shards, ThreadPool& pool,
                                            const Lengths& lengths, double threshold,
                                            std::span<const std::int64_t> order);

/// A summary of all pairs within a group.
struct PairsWithin {
  double min_cosine = 1;                // the lowest cosine of any pair
  std::vector<bool> nearly_equal_rows;  // per row, whether another one is nearly equal
};

/// Compares all pairs of the rows. Near equality, a cosine of at least `nearly_equal`, is only
/// estimated; the caller compares the files to decide about equality.
[[nodiscard]] PairsWithin compare_within(const Shards& shards, ThreadPool& pool,
                                         const Lengths& lengths, std::span<const std::int64_t> rows,
                                         double nearly_equal);

}  // namespace fovea::search
