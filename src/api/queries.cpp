// The vector arithmetic of a search: adds and subtracts the vectors of texts and photos.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/length.hpp"
#include "fovea/search.hpp"

namespace fovea {
namespace {

/// Adds `weight` times the vector divided by its length. `name` and `number` identify it in
/// messages.
void add_direction(std::span<const float> vector, double weight, std::string_view name,
                   std::size_t number, std::span<double> sum) {
  if (vector.size() != sum.size()) {
    fail("{} {} has {} numbers, not {}", name, number, vector.size(), sum.size());
  }
  const double squares = squared_length(vector);
  if (!std::isfinite(squares)) {
    fail("{} {} holds NaN or infinity", name, number);
  }
  if (squares == 0) {
    fail("{} {} is all zeros, so it has no direction", name, number);
  }
  const double length = std::sqrt(squares);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += weight * (static_cast<double>(vector[i]) / length);
  }
}

}  // namespace

std::vector<float> combine_queries(std::span<const float> queries, std::int64_t dimension,
                                   std::span<const QueryTerm> terms) {
  if (dimension < 1) {
    fail("invalid dimension {}; it must be at least 1", dimension);
  }
  const auto width = static_cast<std::size_t>(dimension);
  if (queries.size() % width != 0) {
    fail("{} numbers are not a whole number of queries of {} numbers", queries.size(), width);
  }
  std::vector<double> term_sum(width);
  for (std::size_t term = 0; term < terms.size(); ++term) {
    if (!std::isfinite(terms[term].weight)) {
      fail("the weight of term {} is {}, which is not finite", term, terms[term].weight);
    }
    add_direction(terms[term].vector, terms[term].weight, "term", term, term_sum);
  }
  std::vector<float> combined(queries.size());
  std::vector<double> sum(width);
  for (std::size_t query = 0; query * width < queries.size(); ++query) {
    sum = term_sum;
    add_direction(queries.subspan(query * width, width), 1, "query", query, sum);
    const std::span<float> result = std::span(combined).subspan(query * width, width);
    std::ranges::transform(sum, result.begin(),
                           [](double value) { return static_cast<float>(value); });
    const double squares = squared_length(result);
    if (!std::isfinite(squares)) {
      fail("query {} and the terms add up to more than a float holds: the weights are too large",
           query);
    }
    if (squares == 0) {
      fail("query {} and the terms cancel each other: nothing is left to search for", query);
    }
  }
  return combined;
}

}  // namespace fovea
