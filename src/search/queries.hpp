// Queries: the validated query vectors of a search, and their unit vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fovea::search {

struct Queries {
  std::size_t dimension = 0;
  std::span<const float> vectors;  // [n, dimension]
  std::vector<double> squared_norms;
  std::span<const std::int64_t> left_out;  // a row to exclude per query, or empty

  [[nodiscard]] std::size_t size() const { return squared_norms.size(); }
  [[nodiscard]] std::span<const float> vector(std::size_t query) const {
    return vectors.subspan(query * dimension, dimension);
  }
  [[nodiscard]] bool excludes(std::size_t query, std::int64_t row) const {
    return !left_out.empty() && left_out[query] == row;
  }
  /// Returns the queries [first, first + count).
  [[nodiscard]] Queries subset(std::size_t first, std::size_t count) const;
  /// Returns the queries scaled to length 1, [n, dimension], rounded to T.
  template <typename T>
  [[nodiscard]] std::vector<T> unit() const;
};

/// Validates query vectors. Throws fovea::Error when their numbers do not divide evenly into
/// queries, when a query is all zeros or contains NaN or infinity, or when `left_out` is neither
/// empty nor one row per query.
[[nodiscard]] Queries check_queries(std::span<const float> vectors, std::size_t dimension,
                                    std::span<const std::int64_t> left_out);

}  // namespace fovea::search
