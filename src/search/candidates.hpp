// Candidates: rows that their bounds do not exclude, and their exact scores.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/best.hpp"
#include "search/code_scan.hpp"
#include "search/queries.hpp"
#include "search/shards.hpp"

namespace fovea::search {

/// Lower bounds on the score of the k-th best row of each query, shared by all threads.
class SharedFloors {
 public:
  explicit SharedFloors(std::size_t queries);

  [[nodiscard]] double get(std::size_t query) const {
    return floors_[query].load(std::memory_order_relaxed);
  }
  void raise(std::size_t query, double floor);

 private:
  std::vector<std::atomic<double>> floors_;
};

/// The candidates of one thread. A row whose upper bound is below floor() is not among the best k.
class Candidates {
 public:
  Candidates(const Shards& shards, const Queries& queries, std::size_t k, SharedFloors& shared);

  [[nodiscard]] double floor(std::size_t query) const;

  /// Adds a row whose vector is in memory.
  void offer(std::size_t query, std::int64_t row, std::span<const float> vector);
  /// Adds a row that is read later, unless the floor exceeds its upper bound by then.
  void defer(std::size_t query, std::int64_t row, const Bounds& bounds, RowReader& reader);
  /// Reads and scores the rows from defer().
  void score_deferred(std::size_t query, RowReader& reader);

  [[nodiscard]] const std::vector<Match>& matches(std::size_t query) const {
    return best_[query].matches();
  }

 private:
  struct Deferred {
    std::int64_t row;
    float upper;
  };
  void drop_excluded(std::size_t query);

  const Shards& shards_;
  const Queries& queries_;
  std::size_t k_;
  SharedFloors& shared_;
  std::vector<Best> best_;
  std::vector<std::vector<Deferred>> deferred_;
  // The k highest lower bounds of deferred rows, as heaps with the lowest in front. They raise the
  // floor without reading rows.
  std::vector<std::vector<float>> lower_bounds_;
  std::vector<float> vector_;
};

}  // namespace fovea::search
