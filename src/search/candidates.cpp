// Computes exact scores, highest bounds first, so that they exclude most others.
#include "search/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "search/cosine.hpp"

namespace fovea::search {
namespace {

// The minimum number of rows that a query defers, so that few of them have to be read.
constexpr std::size_t kMinDeferred = 256;
constexpr std::size_t kReadTogether = 16;

// Converts an upper bound to double; infinity when it is NaN.
double limit_of(float upper) {
  return std::isnan(upper) ? INFINITY : static_cast<double>(upper);
}

}  // namespace

SharedFloors::SharedFloors(std::size_t queries) : floors_(queries) {
  for (std::atomic<double>& floor : floors_) {
    floor.store(-INFINITY, std::memory_order_relaxed);
  }
}

void SharedFloors::raise(std::size_t query, double floor) {
  double known = get(query);
  while (known < floor &&
         !floors_[query].compare_exchange_weak(known, floor, std::memory_order_relaxed)) {
  }
}

Candidates::Candidates(const Shards& shards, const Queries& queries, std::size_t k,
                       SharedFloors& shared)
    : shards_(shards),
      queries_(queries),
      k_(k),
      shared_(shared),
      best_(queries.size(), Best(k)),
      later_(queries.size()),
      lowers_(queries.size()),
      vector_(queries.dimension) {}

double Candidates::floor(std::size_t query) const {
  return std::max(best_[query].floor(), shared_.get(query));
}

void Candidates::offer(std::size_t query, std::int64_t row, std::span<const float> vector) {
  if (queries_.leaves_out(query, row)) {
    return;
  }
  const double squared = checked_squared_norm(shards_, row, vector);
  best_[query].offer(
      {row, cosine(vector, squared, queries_.vector(query), queries_.squared_norms[query])});
  shared_.raise(query, best_[query].floor());
}

void Candidates::offer_later(std::size_t query, std::int64_t row, const Bounds& bounds,
                             RowReader& reader) {
  std::vector<float>& lowers = lowers_[query];
  if (bounds.lower > -INFINITY && (lowers.size() < k_ || bounds.lower > lowers.front())) {
    if (lowers.size() == k_) {
      std::ranges::pop_heap(lowers, std::greater());
      lowers.pop_back();
    }
    lowers.push_back(bounds.lower);
    std::ranges::push_heap(lowers, std::greater());
    if (lowers.size() == k_) {
      shared_.raise(query, static_cast<double>(lowers.front()));
    }
  }
  std::vector<Later>& later = later_[query];
  later.push_back({row, bounds.upper});
  const std::size_t limit = std::max(kMinDeferred, 4 * k_);
  if (later.size() >= limit) {
    drop_ruled_out(query);
    if (later.size() > limit / 2) {
      settle(query, reader);
    }
  }
}

void Candidates::drop_ruled_out(std::size_t query) {
  const double known = floor(query);
  std::erase_if(later_[query],
                [&](const Later& candidate) { return limit_of(candidate.upper) < known; });
}

void Candidates::settle(std::size_t query, RowReader& reader) {
  std::vector<Later>& later = later_[query];
  drop_ruled_out(query);
  // The highest bounds first; what is read together in row order.
  std::ranges::sort(later, std::ranges::greater(),
                    [](const Later& candidate) { return limit_of(candidate.upper); });
  const std::size_t together = std::max(kReadTogether, k_);
  for (std::size_t first = 0; first < later.size(); first += together) {
    const double known = floor(query);
    const auto begin = later.begin() + static_cast<std::ptrdiff_t>(first);
    const auto limit =
        begin + static_cast<std::ptrdiff_t>(std::min(together, later.size() - first));
    const auto end = std::find_if(
        begin, limit, [&](const Later& candidate) { return limit_of(candidate.upper) < known; });
    std::sort(begin, end, [](const Later& a, const Later& b) { return a.row < b.row; });
    for (auto candidate = begin; candidate != end; ++candidate) {
      reader.row(candidate->row, vector_);
      offer(query, candidate->row, vector_);
    }
    if (end != limit) {
      break;
    }
  }
  later.clear();
}

}  // namespace fovea::search
