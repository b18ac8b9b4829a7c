// Near-duplicates: every pair of rows once, as a blocked matrix product; the pairs over the
// threshold connect rows into groups.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "core/error.hpp"
#include "search/cosine.hpp"
#include "search/dot_kernels.hpp"
#include "search/nearest.hpp"

namespace fovea::search {
namespace {

constexpr std::int64_t kRowsPerBlock = 64;
// How many blocks each block that is read is compared with: computing takes much longer than
// reading.
constexpr std::size_t kBlocksTogether = 8;

// Disjoint sets of rows; the root of a set is its first row.
class Groups {
 public:
  explicit Groups(std::int64_t rows) : parents_(static_cast<std::size_t>(rows)) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  std::int64_t root(std::int64_t row) {
    while (parent(row) != row) {
      parent(row) = parent(parent(row));
      row = parent(row);
    }
    return row;
  }
  void join(std::int64_t a, std::int64_t b) {
    const auto [first, second] = std::minmax({root(a), root(b)});
    parent(second) = first;
  }

 private:
  std::int64_t& parent(std::int64_t row) { return parents_[static_cast<std::size_t>(row)]; }
  std::vector<std::int64_t> parents_;
};

class PairSearch {
 public:
  PairSearch(const Shards& shards, ThreadPool& pool, double threshold)
      : shards_(shards),
        pool_(pool),
        threshold_(threshold),
        dimension_(static_cast<std::size_t>(shards.dimension())),
        // Cosines with estimates below this are certainly below the threshold.
        limit_(static_cast<float>(threshold) - cosine_error(shards.dimension())),
        blocks_(shards.blocks(shards.rows_at_once(kRowsPerBlock))),
        inverse_norms_(static_cast<std::size_t>(shards.rows())),
        squared_norms_(static_cast<std::size_t>(shards.rows())),
        groups_(shards.rows()) {}

  std::vector<std::vector<Match>> run() {
    std::vector<Workspace> workspaces;
    workspaces.reserve(static_cast<std::size_t>(pool_.threads()));
    for (int worker = 0; worker < pool_.threads(); ++worker) {
      workspaces.emplace_back(shards_);
    }
    measure(workspaces);
    // When there are few blocks, each task takes few of them, so that every thread has work.
    const std::size_t together =
        std::clamp<std::size_t>(blocks_.size() / (4 * workspaces.size()), 1, kBlocksTogether);
    // The first blocks have the most partners, so they are handed out first.
    const std::size_t tasks = (blocks_.size() + together - 1) / together;
    pool_.parallel_for(tasks, [&](std::size_t task, int worker) {
      const std::size_t first = task * together;
      compare_all(first, std::min(first + together, blocks_.size()),
                  workspaces[static_cast<std::size_t>(worker)]);
    });
    return collect();
  }

 private:
  // One per thread.
  struct Workspace {
    explicit Workspace(const Shards& shards) : reader(shards) {}

    RowReader reader;
    std::array<AlignedBuffer<float>, kBlocksTogether> rows;
    AlignedBuffer<float> columns;
    std::vector<float> dots = std::vector<float>(kRowsPerBlock * kRowsPerBlock);
  };

  [[nodiscard]] std::span<const float> vector(const float* rows, std::int64_t index) const {
    return {rows + static_cast<std::size_t>(index) * dimension_, dimension_};
  }

  // Computes the lengths of all rows; NaN and infinity end the search here.
  void measure(std::vector<Workspace>& workspaces) {
    pool_.parallel_for(blocks_.size(), [&](std::size_t index, int worker) {
      const RowBlock& block = blocks_[index];
      Workspace& space = workspaces[static_cast<std::size_t>(worker)];
      const float* rows = space.reader.read(block, space.columns);
      inverse_norms(rows, block.count, shards_.dimension(), &inverse_norms_[at(block.first)]);
      for (std::int64_t row = 0; row < block.count; ++row) {
        squared_norms_[at(block.first + row)] =
            checked_squared_norm(shards_, block.first + row, vector(rows, row));
      }
    });
  }

  // Compares blocks [first, end), which stay in memory, with themselves and with all blocks after
  // them, each of which is read once.
  void compare_all(std::size_t first, std::size_t end, Workspace& space) {
    for (std::size_t index = first; index < end; ++index) {
      space.reader.read(blocks_[index], space.rows[index - first]);
    }
    for (std::size_t other = first; other < blocks_.size(); ++other) {
      const float* columns = other < end ? space.rows[other - first].data()
                                         : space.reader.read(blocks_[other], space.columns);
      for (std::size_t index = first; index < std::min(end, other + 1); ++index) {
        compare(blocks_[index], space.rows[index - first].data(), blocks_[other], columns, space);
      }
    }
  }

  void compare(const RowBlock& a, const float* rows, const RowBlock& b, const float* columns,
               Workspace& space) {
    const auto width = static_cast<std::size_t>(b.count);
    dot_products(rows, static_cast<std::size_t>(a.count), columns, width, dimension_,
                 space.dots.data());
    for (std::int64_t row = 0; row < a.count; ++row) {
      const float* line = space.dots.data() + at(row) * width;
      const std::int64_t first = a.first == b.first ? row + 1 : 0;
      for (std::int64_t column = first; column < b.count; ++column) {
        const float estimate =
            line[column] * inverse_norms_[at(a.first + row)] * inverse_norms_[at(b.first + column)];
        if (!(estimate < limit_)) {  // negated, so that NaN is computed exactly
          join(a.first + row, vector(rows, row), b.first + column, vector(columns, column));
        }
      }
    }
  }

  void join(std::int64_t row, std::span<const float> a, std::int64_t other,
            std::span<const float> b) {
    {
      const std::lock_guard lock(mutex_);
      if (groups_.root(row) == groups_.root(other)) {
        return;
      }
    }
    if (cosine(a, squared_norms_[at(row)], b, squared_norms_[at(other)]) >= threshold_) {
      const std::lock_guard lock(mutex_);
      groups_.join(row, other);
    }
  }

  std::vector<std::vector<Match>> collect() {
    std::map<std::int64_t, std::vector<Match>> by_root;
    for (std::int64_t row = 0; row < shards_.rows(); ++row) {
      if (const std::int64_t root = groups_.root(row); root != row) {
        by_root[root].push_back({row, 0});
      }
    }
    std::vector<std::vector<Match>> list;
    list.reserve(by_root.size());
    RowReader reader(shards_);
    for (auto& [root, group] : by_root) {
      const std::vector<float> first = reader.row(root);
      for (Match& match : group) {
        match.score = cosine(first, squared_norms_[at(root)], reader.row(match.row),
                             squared_norms_[at(match.row)]);
      }
      group.insert(group.begin(), {root, 1.0});
      list.push_back(std::move(group));
    }
    return list;
  }

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  const Shards& shards_;
  ThreadPool& pool_;
  double threshold_;
  std::size_t dimension_;
  float limit_;
  std::vector<RowBlock> blocks_;
  std::vector<float> inverse_norms_;
  std::vector<double> squared_norms_;
  std::mutex mutex_;
  Groups groups_;
};

}  // namespace

std::vector<std::vector<Match>> duplicates(const Shards& shards, ThreadPool& pool,
                                           double threshold) {
  if (std::isnan(threshold) || threshold <= 0 || threshold > 1) {
    fail("invalid threshold {}; it must be above 0 and at most 1", threshold);
  }
  return PairSearch(shards, pool, threshold).run();
}

}  // namespace fovea::search
