// Binary32 estimates rule out almost every row. Rows that could be among the best are computed in
// binary64, so the result is exact and does not depend on the instruction set or the threads.
#include "search/nearest.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "search/cosine.hpp"
#include "search/dot_kernels.hpp"
#include "search/report.hpp"

namespace fovea::search {
namespace {

constexpr std::int64_t kRowsPerTask = 1024;
// The numbers of rows and queries that are processed at a time: both fit in the L2 cache.
constexpr std::int64_t kRowsPerStep = 32;
constexpr std::size_t kQueriesPerStep = 96;

bool is_better(const Match& a, const Match& b) {
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

// The best k rows so far, as a heap with the worst of them in front.
class Best {
 public:
  explicit Best(std::size_t k) : k_(k) {}

  /// The score that a row must beat (or equal, with a smaller row number).
  [[nodiscard]] double floor() const { return heap_.size() < k_ ? -INFINITY : heap_.front().score; }
  void offer(const Match& match) {
    if (heap_.size() == k_) {
      if (!is_better(match, heap_.front())) {
        return;
      }
      std::pop_heap(heap_.begin(), heap_.end(), is_better);
      heap_.back() = match;
    } else {
      heap_.push_back(match);
    }
    std::push_heap(heap_.begin(), heap_.end(), is_better);
  }
  [[nodiscard]] const std::vector<Match>& matches() const { return heap_; }

 private:
  std::size_t k_;
  std::vector<Match> heap_;
};

struct Queries {
  std::span<const float> vectors;  // [n, dimension]
  AlignedBuffer<float> unit;       // the same, of length 1
  std::vector<double> squared_norms;
  std::span<const std::int64_t> left_out;

  [[nodiscard]] std::size_t size() const { return squared_norms.size(); }
  [[nodiscard]] bool leaves_out(std::size_t query, std::int64_t row) const {
    return !left_out.empty() && left_out[query] == row;
  }
};

Queries prepare(std::span<const float> vectors, std::size_t dimension,
                std::span<const std::int64_t> left_out) {
  if (vectors.size() % dimension != 0) {
    fail("{} numbers are not a whole number of queries of dimension {}", vectors.size(), dimension);
  }
  Queries queries{vectors, AlignedBuffer<float>(vectors.size()), {}, left_out};
  for (std::size_t at = 0; at < vectors.size(); at += dimension) {
    const double squared = squared_norm(vectors.subspan(at, dimension));
    if (!std::isfinite(squared) || squared == 0) {
      fail("query {} {}", at / dimension,
           squared == 0 ? "is all zeros, which has no direction" : "holds NaN or infinity");
    }
    for (std::size_t index = at; index < at + dimension; ++index) {
      queries.unit[index] =
          static_cast<float>(static_cast<double>(vectors[index]) / std::sqrt(squared));
    }
    queries.squared_norms.push_back(squared);
  }
  if (!left_out.empty() && left_out.size() != queries.size()) {
    fail("got {} rows to leave out for {} queries; expected one per query, or none",
         left_out.size(), queries.size());
  }
  return queries;
}

// One worker's share of the search.
class Scan {
 public:
  Scan(const Shards& shards, const Queries& queries, std::size_t k)
      : shards_(shards),
        reader_(shards),
        queries_(queries),
        dimension_(static_cast<std::size_t>(shards.dimension())),
        error_(cosine_error(shards.dimension())),
        step_(shards.rows_at_once(kRowsPerStep)),
        best_(queries.size(), Best(k)),
        inverse_norms_(kRowsPerStep),
        dots_(kRowsPerStep * kQueriesPerStep) {}

  void run(const RowBlock& task) {
    for (std::int64_t done = 0; done < task.count; done += step_) {
      const RowBlock block{task.shard, task.first + done, std::min(step_, task.count - done)};
      const float* rows = reader_.read(block, rows_);
      inverse_norms(rows, block.count, shards_.dimension(), inverse_norms_.data());
      for (std::size_t first = 0; first < queries_.size(); first += kQueriesPerStep) {
        compare(block, rows, first, std::min(kQueriesPerStep, queries_.size() - first));
      }
    }
  }
  [[nodiscard]] const Best& best(std::size_t query) const { return best_[query]; }

 private:
  void compare(const RowBlock& block, const float* rows, std::size_t first, std::size_t count) {
    const auto row_count = static_cast<std::size_t>(block.count);
    dot_products(rows, row_count, queries_.unit.data() + first * dimension_, count, dimension_,
                 dots_.data());
    for (std::size_t row = 0; row < row_count; ++row) {
      for (std::size_t index = 0; index < count; ++index) {
        const float estimate = dots_[row * count + index] * inverse_norms_[row];
        Best& best = best_[first + index];
        // Negated, so that NaN is computed exactly.
        if (!(static_cast<double>(estimate + error_) < best.floor())) {
          offer(best, first + index, block.first + static_cast<std::int64_t>(row),
                {rows + row * dimension_, dimension_});
        }
      }
    }
  }

  void offer(Best& best, std::size_t query, std::int64_t row, std::span<const float> vector) {
    if (!queries_.leaves_out(query, row)) {
      const double squared = checked_squared_norm(shards_, row, vector);
      best.offer(
          {row, cosine(vector, squared, queries_.vectors.subspan(query * dimension_, dimension_),
                       queries_.squared_norms[query])});
    }
  }

  const Shards& shards_;
  RowReader reader_;
  const Queries& queries_;
  std::size_t dimension_;
  float error_;
  std::int64_t step_;
  std::vector<Best> best_;
  std::vector<float> inverse_norms_;
  std::vector<float> dots_;
  AlignedBuffer<float> rows_;
};

}  // namespace

std::vector<std::vector<Match>> nearest(const Shards& shards, ThreadPool& pool,
                                        std::span<const float> vectors, int k,
                                        std::span<const std::int64_t> left_out,
                                        const SearchProgress& progress) {
  if (k < 1) {
    fail("invalid number of neighbours {}; it must be at least 1", k);
  }
  const Queries queries = prepare(vectors, static_cast<std::size_t>(shards.dimension()), left_out);
  std::vector<Scan> scans;
  scans.reserve(static_cast<std::size_t>(pool.threads()));
  for (int worker = 0; worker < pool.threads(); ++worker) {
    scans.emplace_back(shards, queries, static_cast<std::size_t>(k));
  }
  const std::vector<RowBlock> tasks = shards.blocks(kRowsPerTask);
  Report report(progress, shards.rows());
  pool.parallel_for(tasks.size(), [&](std::size_t task, int worker) {
    scans[static_cast<std::size_t>(worker)].run(tasks[task]);
    report.add(tasks[task].count);
  });
  std::vector<std::vector<Match>> results(queries.size());
  for (std::size_t query = 0; query < queries.size(); ++query) {
    std::vector<Match>& found = results[query];
    for (const Scan& scan : scans) {
      const std::vector<Match>& part = scan.best(query).matches();
      found.insert(found.end(), part.begin(), part.end());
    }
    std::sort(found.begin(), found.end(), is_better);
    found.resize(std::min(found.size(), static_cast<std::size_t>(k)));
  }
  return results;
}

}  // namespace fovea::search
