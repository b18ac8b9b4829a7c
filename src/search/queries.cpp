// Validates queries, and computes their unit vectors.
#include "search/queries.hpp"

#include <cmath>

#include "core/error.hpp"
#include "search/cosine.hpp"

namespace fovea::search {

Queries check_queries(std::span<const float> vectors, std::size_t dimension,
                      std::span<const std::int64_t> left_out) {
  if (vectors.size() % dimension != 0) {
    fail("cannot divide {} numbers into queries of dimension {}", vectors.size(), dimension);
  }
  Queries queries{dimension, vectors, {}, left_out};
  for (std::size_t offset = 0; offset < vectors.size(); offset += dimension) {
    const double squared = squared_norm(vectors.subspan(offset, dimension));
    if (!std::isfinite(squared) || squared == 0) {
      fail("query {} {}", offset / dimension,
           squared == 0 ? "is all zeros and has no direction" : "holds NaN or infinity");
    }
    queries.squared_norms.push_back(squared);
  }
  if (!left_out.empty() && left_out.size() != queries.size()) {
    fail("got {} rows to leave out for {} queries; expected one per query or none", left_out.size(),
         queries.size());
  }
  return queries;
}

Queries Queries::subset(std::size_t first, std::size_t count) const {
  return {dimension,
          vectors.subspan(first * dimension, count * dimension),
          {squared_norms.begin() + static_cast<std::ptrdiff_t>(first),
           squared_norms.begin() + static_cast<std::ptrdiff_t>(first + count)},
          left_out.empty() ? left_out : left_out.subspan(first, count)};
}

template <typename T>
std::vector<T> Queries::unit() const {
  std::vector<T> unit_vectors;
  unit_vectors.reserve(vectors.size());
  for (std::size_t query = 0; query < size(); ++query) {
    for (const float value : vector(query)) {
      unit_vectors.push_back(
          static_cast<T>(static_cast<double>(value) / std::sqrt(squared_norms[query])));
    }
  }
  return unit_vectors;
}

template std::vector<float> Queries::unit<float>() const;
template std::vector<double> Queries::unit<double>() const;

}  // namespace fovea::search
