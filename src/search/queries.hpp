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
  std::span<const std::int64_t> left_out;  // of each, or none

  [[nodiscard]] std::size_t size() const { return squared_norms.size(); }
  [[nodiscard]] std::span<const float> vector(std::size_t query) const {
    return vectors.subspan(query * dimension, dimension);
  }
  [[nodiscard]] bool leaves_out(std::size_t query, std::int64_t row) const {
    return !left_out.empty() && left_out[query] == row;
  }
  /// `count` of them from `first` on.
  [[nodiscard]] Queries part(std::size_t first, std::size_t count) const;
  /// Queries scaled to length 1: [n, dimension], rounded to T.
  template <typename T>
  [[nodiscard]] std::vector<T> unit() const;
};

/// Throws fovea::Error when the numbers are not whole queries, when one is all zeros or holds NaN
/// or infinity, or when `left_out` is neither empty nor one row for each.
[[nodiscard]] Queries check_queries(std::span<const float> vectors, std::size_t dimension,
                                    std::span<const std::int64_t> left_out);

}  // namespace fovea::search
