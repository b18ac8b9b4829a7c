// Computes exact scores in descending order of the bounds, so that they exclude most other rows.
#include "search/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "search/cosine.hpp"

namespace fovea::search {
namespace {

// The minimum number of rows that a query defers; the more it defers, the fewer it has to read.
constexpr std::size_t kMinDeferred = 256;
constexpr std::size_t kRowsPerRead = 16;

// Converts an upper bound to double. NaN becomes infinity.
double upper_limit(float upper) {
  return std::isnan(upper) ? INFINITY : static_cast<double>(upper);
}

}  // namespace

SharedFloors::SharedFloors(std::size_t queries) : floors_(queries) {
  for (std::atomic<double>& floor : floors_) {
    floor.store(-INFINITY, std::memory_order_relaxed);
  }
}

void SharedFloors::raise(std::size_t query, double floor) {
  double current_floor = get(query);
  while (current_floor < floor &&
         !floors_[query].compare_exchange_weak(current_floor, floor, std::memory_order_relaxed)) {
  }
}

Candidates::Candidates(const Shards& shards, const Queries& queries, std::size_t k,
                       SharedFloors& shared)
    : shards_(shards),
      queries_(queries),
      k_(k),
      shared_(shared),
      best_(queries.size(), Best(k)),
      deferred_(queries.size()),
      lower_bounds_(queries.size()),
      vector_(queries.dimension) {}

double Candidates::floor(std::size_t query) const {
  return std::max(best_[query].floor(), shared_.get(query));
}

void Candidates::offer(std::size_t query, std::int64_t row, std::span<const float> vector) {
  if (queries_.excludes(query, row)) {
    return;
  }
  const double squared = checked_squared_norm(shards_, row, vector);
  best_[query].offer(
      {row, cosine(vector, squared, queries_.vector(query), queries_.squared_norms[query])});
  shared_.raise(query, best_[query].floor());
}

void Candidates::defer(std::size_t query, std::int64_t row, const Bounds& bounds,
                       RowReader& reader) {
  std::vector<float>& lower_bounds = lower_bounds_[query];
  if (bounds.lower > -INFINITY &&
      (lower_bounds.size() < k_ || bounds.lower > lower_bounds.front())) {
    if (lower_bounds.size() == k_) {
      std::ranges::pop_heap(lower_bounds, std::greater());
      lower_bounds.pop_back();
    }
    lower_bounds.push_back(bounds.lower);
    std::ranges::push_heap(lower_bounds, std::greater());
    if (lower_bounds.size() == k_) {
      shared_.raise(query, static_cast<double>(lower_bounds.front()));
    }
  }
  std::vector<Deferred>& deferred = deferred_[query];
  deferred.push_back({row, bounds.upper});
  const std::size_t limit = std::max(kMinDeferred, 4 * k_);
  if (deferred.size() >= limit) {
    drop_excluded(query);
    if (deferred.size() > limit / 2) {
      score_deferred(query, reader);
    }
  }
}

void Candidates::drop_excluded(std::size_t query) {
  const double current_floor = floor(query);
  std::erase_if(deferred_[query], [&](const Deferred& candidate) {
    return upper_limit(candidate.upper) < current_floor;
  });
}

void Candidates::score_deferred(std::size_t query, RowReader& reader) {
  std::vector<Deferred>& deferred = deferred_[query];
  drop_excluded(query);
  // Sorts by descending bounds. The rows of each read are sorted by row number below.
  std::ranges::sort(deferred, std::ranges::greater(),
                    [](const Deferred& candidate) { return upper_limit(candidate.upper); });
  const std::size_t rows_per_read = std::max(kRowsPerRead, k_);
  for (std::size_t first = 0; first < deferred.size(); first += rows_per_read) {
    const double current_floor = floor(query);
    const auto begin = deferred.begin() + static_cast<std::ptrdiff_t>(first);
    const auto limit =
        begin + static_cast<std::ptrdiff_t>(std::min(rows_per_read, deferred.size() - first));
    const auto end = std::find_if(begin, limit, [&](const Deferred& candidate) {
      return upper_limit(candidate.upper) < current_floor;
    });
    std::sort(begin, end, [](const Deferred& a, const Deferred& b) { return a.row < b.row; });
    for (auto candidate = begin; candidate != end; ++candidate) {
      reader.row(candidate->row, vector_);
      offer(query, candidate->row, vector_);
    }
    if (end != limit) {
      break;
    }
  }
  deferred.clear();
}

}  // namespace fovea::search
