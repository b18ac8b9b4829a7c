// Compares pairs by estimates in binary32. Cosines near a threshold are computed in binary64, so
// that results depend neither on the instruction set nor on the number of threads.
#include "search/pairs.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "search/cosine.hpp"
#include "search/dot_kernels.hpp"
#include "search/report.hpp"

namespace fovea::search {
namespace {

constexpr std::int64_t kRowsPerBlock = 64;
// The number of blocks that stay in memory and are compared with each block that is read.
constexpr std::size_t kBlocksPerTask = 8;
// The maximum number of rows per round. All later rows are compared with the rows kept in a round.
constexpr std::size_t kRowsPerRound = 512;

std::size_t to_size(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// Rows that were read into memory. They need not be consecutive in their files.
struct LoadedRows {
  std::vector<std::int64_t> rows;
  AlignedBuffer<float> vectors;

  [[nodiscard]] std::span<const float> vector(std::size_t index, std::size_t dimension) const {
    return {vectors.data() + index * dimension, dimension};
  }
};

// The buffers of one thread.
struct Workspace {
  explicit Workspace(const Shards& shards) : reader(shards) {}

  RowReader reader;
  std::array<LoadedRows, kBlocksPerTask> rows;
  LoadedRows columns;
  std::vector<float> dots;
};

class PairScan {
 public:
  PairScan(const Shards& shards, ThreadPool& pool, const Lengths& lengths)
      : shards_(shards),
        pool_(pool),
        lengths_(lengths),
        dimension_(to_size(shards.dimension())),
        error_(cosine_error(shards.dimension())),
        workspaces_(for_workers(pool, [&] { return Workspace(shards); })) {}

 protected:
  Workspace& workspace(int worker) { return workspaces_[static_cast<std::size_t>(worker)]; }

  // Reads the rows of a block that satisfy `condition` into `out`.
  template <typename Condition>
  void read(const RowBlock& block, Workspace& space, LoadedRows& out, const Condition& condition) {
    out.rows.clear();
    for (std::int64_t row = block.first; row < block.first + block.count; ++row) {
      if (condition(row)) {
        out.rows.push_back(row);
      }
    }
    if (out.rows.empty()) {
      return;
    }
    space.reader.read(block, out.vectors);
    for (std::size_t index = 0; index < out.rows.size(); ++index) {
      const std::size_t source = to_size(out.rows[index] - block.first);
      if (source != index) {
        std::copy_n(out.vectors.data() + source * dimension_, dimension_,
                    out.vectors.data() + index * dimension_);
      }
    }
  }

  // Reads the given rows into `out`.
  void gather(std::span<const std::int64_t> rows, RowReader& reader, LoadedRows& out) const {
    out.rows.assign(rows.begin(), rows.end());
    if (out.vectors.size() < rows.size() * dimension_) {
      out.vectors = AlignedBuffer<float>(rows.size() * dimension_);
    }
    for (std::size_t index = 0; index < rows.size(); ++index) {
      const std::vector<float> row = reader.row(rows[index]);
      std::copy(row.begin(), row.end(), out.vectors.data() + index * dimension_);
    }
  }

  // Calls use(index in a, index in b, estimate of the cosine) for each pair.
  template <typename Use>
  void estimate(const LoadedRows& a, const LoadedRows& b, Workspace& space, const Use& use) const {
    const std::size_t width = b.rows.size();
    if (space.dots.size() < a.rows.size() * width) {
      space.dots.resize(a.rows.size() * width);
    }
    dot_products(a.vectors.data(), a.rows.size(), b.vectors.data(), width, dimension_,
                 space.dots.data());
    for (std::size_t row = 0; row < a.rows.size(); ++row) {
      const float inverse = lengths_.inverse[to_size(a.rows[row])];
      const float* line = space.dots.data() + row * width;
      for (std::size_t column = 0; column < width; ++column) {
        use(row, column, line[column] * inverse * lengths_.inverse[to_size(b.rows[column])]);
      }
    }
  }

  // Returns whether the cosine may reach `limit`; true for an estimate of NaN.
  [[nodiscard]] bool may_reach(float estimate, double limit) const {
    return !(static_cast<double>(estimate) + static_cast<double>(error_) < limit);
  }

  [[nodiscard]] double exact_cosine(const LoadedRows& a, std::size_t row, const LoadedRows& b,
                                    std::size_t column) const {
    return cosine(a.vector(row, dimension_), lengths_.squared[to_size(a.rows[row])],
                  b.vector(column, dimension_), lengths_.squared[to_size(b.rows[column])]);
  }

  const Shards& shards_;
  ThreadPool& pool_;
  const Lengths& lengths_;
  std::size_t dimension_;
  float error_;

 private:
  std::vector<Workspace> workspaces_;
};

class PartnerScan : PairScan {
 public:
  PartnerScan(const Shards& shards, ThreadPool& pool, const Lengths& lengths, double threshold,
              const SearchProgress& progress)
      : PairScan(shards, pool, lengths),
        threshold_(threshold),
        blocks_(shards.blocks(shards.rows_at_once(kRowsPerBlock))),
        has_partner_(to_size(shards.rows())),
        report_(progress, static_cast<std::int64_t>(blocks_.size() * (blocks_.size() + 1) / 2)) {}

  std::vector<std::int64_t> run() {
    // When there are few blocks, tasks take fewer of them, so that every thread gets work.
    const std::size_t task_blocks = std::clamp<std::size_t>(
        blocks_.size() / (4 * static_cast<std::size_t>(pool_.threads())), 1, kBlocksPerTask);
    // The first blocks are compared with the most others, so their tasks start first.
    const std::size_t tasks = (blocks_.size() + task_blocks - 1) / task_blocks;
    pool_.parallel_for(tasks, [&](std::size_t task, int worker) {
      const std::size_t first = task * task_blocks;
      compare_blocks(first, std::min(first + task_blocks, blocks_.size()), workspace(worker));
    });
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < shards_.rows(); ++row) {
      if (has_partner(row)) {
        rows.push_back(row);
      }
    }
    return rows;
  }

 private:
  [[nodiscard]] bool has_partner(std::int64_t row) const {
    return has_partner_[to_size(row)].load(std::memory_order_relaxed);
  }

  // Compares the blocks [first, end), which stay in memory, with each other and with all later
  // blocks, each of which is read once.
  void compare_blocks(std::size_t first, std::size_t end, Workspace& space) {
    const auto all = [](std::int64_t) { return true; };
    for (std::size_t index = first; index < end; ++index) {
      read(blocks_[index], space, space.rows[index - first], all);
    }
    std::int64_t pairs = 0;
    for (std::size_t other = first; other < blocks_.size(); ++other) {
      if (other >= end) {
        read(blocks_[other], space, space.columns, all);
      }
      const LoadedRows& columns = other < end ? space.rows[other - first] : space.columns;
      for (std::size_t index = first; index < std::min(end, other + 1); ++index) {
        compare(space.rows[index - first], columns, space);
        ++pairs;
      }
      if (pairs >= kPairsPerReport || other + 1 == blocks_.size()) {
        report_.add(pairs);
        pairs = 0;
      }
    }
  }

  void compare(const LoadedRows& a, const LoadedRows& b, Workspace& space) {
    const auto has_known_partner = [&](std::int64_t row) { return has_partner(row); };
    if (std::ranges::all_of(a.rows, has_known_partner) &&
        std::ranges::all_of(b.rows, has_known_partner)) {
      return;
    }
    const bool is_same_block = a.rows.front() == b.rows.front();
    estimate(a, b, space, [&](std::size_t row, std::size_t column, float estimate) {
      if (!may_reach(estimate, threshold_) || (is_same_block && column <= row) ||
          (has_partner(a.rows[row]) && has_partner(b.rows[column]))) {
        return;
      }
      if (exact_cosine(a, row, b, column) >= threshold_) {
        has_partner_[to_size(a.rows[row])].store(true, std::memory_order_relaxed);
        has_partner_[to_size(b.rows[column])].store(true, std::memory_order_relaxed);
      }
    });
  }

  static constexpr std::int64_t kPairsPerReport = 1024;

  double threshold_;
  std::vector<RowBlock> blocks_;
  std::vector<std::atomic<bool>> has_partner_;
  Report report_;
};

class Grouping : PairScan {
 public:
  Grouping(const Shards& shards, ThreadPool& pool, const Lengths& lengths, double threshold,
           std::span<const std::int64_t> order)
      : PairScan(shards, pool, lengths),
        threshold_(threshold),
        order_(order),
        states_(to_size(shards.rows())) {
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      states_[to_size(order[rank])].rank = static_cast<std::int64_t>(rank);
    }
  }

  std::vector<Group> run() {
    std::size_t next = 0;
    while (start_round(next)) {
      select_kept_rows();
      assign_members();
    }
    return collect_groups();
  }

 private:
  static constexpr std::int64_t kNone = -1;

  // The state of a row during grouping.
  struct RowState {
    std::int64_t rank = kNone;  // the index in `order`; kNone for rows that are not in it
    std::int64_t kept = kNone;  // the most similar kept row; the row itself when it is kept
    double score = 0;
  };

  // Starts a round with the next rows, in order, that are not members of a kept row so far.
  bool start_round(std::size_t& next) {
    std::vector<std::int64_t> rows;
    for (; next < order_.size() && rows.size() < kRowsPerRound; ++next) {
      if (states_[to_size(order_[next])].kept == kNone) {
        rows.push_back(order_[next]);
      }
    }
    gather(rows, workspace(0).reader, round_);
    return !rows.empty();
  }

  // Decides which rows of this round are kept, and removes the others from it. A row that already
  // is a member may still move to a more similar kept row, but is never kept itself.
  void select_kept_rows() {
    std::vector<std::vector<std::pair<std::size_t, float>>> earlier_rows(round_.rows.size());
    estimate(round_, round_, workspace(0), [&](std::size_t row, std::size_t column, float score) {
      if (column < row && may_reach(score, threshold_)) {
        earlier_rows[row].emplace_back(column, score);
      }
    });
    std::vector<std::size_t> kept;
    for (std::size_t row = 0; row < round_.rows.size(); ++row) {
      for (const auto& [column, estimate] : earlier_rows[row]) {
        if (states_[to_size(round_.rows[column])].kept == round_.rows[column]) {
          assign_if_better(round_, row, column);
        }
      }
      RowState& state = states_[to_size(round_.rows[row])];
      if (state.kept == kNone) {
        state = {state.rank, round_.rows[row], 1};
        kept.push_back(row);
      }
    }
    for (std::size_t index = 0; index < kept.size(); ++index) {
      round_.rows[index] = round_.rows[kept[index]];
      if (kept[index] != index) {
        std::copy_n(round_.vectors.data() + kept[index] * dimension_, dimension_,
                    round_.vectors.data() + index * dimension_);
      }
    }
    round_.rows.resize(kept.size());
  }

  // Assigns all later rows to the kept rows of this round that are similar enough.
  void assign_members() {
    const std::int64_t first = states_[to_size(round_.rows.front())].rank;
    const auto can_be_member = [&](std::int64_t row) {
      return states_[to_size(row)].rank > first && states_[to_size(row)].kept != row;
    };
    const std::vector<RowBlock> blocks = shards_.blocks(shards_.rows_at_once(kRowsPerBlock));
    pool_.parallel_for(blocks.size(), [&](std::size_t index, int worker) {
      Workspace& space = workspace(worker);
      read(blocks[index], space, space.columns, can_be_member);
      if (space.columns.rows.empty()) {
        return;
      }
      estimate(space.columns, round_, space,
               [&](std::size_t row, std::size_t column, float estimate) {
                 const RowState& state = states_[to_size(space.columns.rows[row])];
                 if (may_reach(estimate, std::max(threshold_, state.score)) &&
                     states_[to_size(round_.rows[column])].rank < state.rank) {
                   assign_if_better(space.columns, row, column);
                 }
               });
    });
  }

  // Makes a row of `rows` a member of the kept row `column` of this round if their cosine reaches
  // the threshold and exceeds that of its current kept row.
  void assign_if_better(const LoadedRows& rows, std::size_t row, std::size_t column) {
    const double score = exact_cosine(rows, row, round_, column);
    RowState& state = states_[to_size(rows.rows[row])];
    if (score >= threshold_ && (state.kept == kNone || score > state.score)) {
      state.kept = round_.rows[column];
      state.score = score;
    }
  }

  std::vector<Group> collect_groups() const {
    std::vector<Group> groups;
    std::vector<std::size_t> group_indices(order_.size());  // by the rank of the kept row
    for (const std::int64_t row : order_) {
      const RowState& state = states_[to_size(row)];
      std::size_t& group = group_indices[to_size(states_[to_size(state.kept)].rank)];
      if (state.kept == row) {
        group = groups.size();
        groups.push_back({row, {}});
      } else {
        groups[group].members.push_back({row, state.score});
      }
    }
    std::erase_if(groups, [](const Group& group) { return group.members.empty(); });
    const auto key = [&](const Match& match) {
      return std::pair(-match.score, states_[to_size(match.row)].rank);
    };
    for (Group& group : groups) {
      std::ranges::sort(group.members, {}, key);
    }
    return groups;
  }

  double threshold_;
  std::span<const std::int64_t> order_;
  std::vector<RowState> states_;
  LoadedRows round_;  // the rows of this round; select_kept_rows() removes those that are not kept
};

class WithinScan : PairScan {
 public:
  WithinScan(const Shards& shards, ThreadPool& pool, const Lengths& lengths,
             std::span<const std::int64_t> rows, double nearly_equal)
      : PairScan(shards, pool, lengths), rows_(rows), nearly_equal_(nearly_equal) {
    result_.nearly_equal_rows.resize(rows.size());
  }

  PairsWithin run() {
    const auto step = to_size(shards_.rows_at_once(kRowsPerBlock));
    const std::size_t tiles = (rows_.size() + step - 1) / step;
    const auto tile = [&](std::size_t index) {
      return rows_.subspan(index * step, std::min(step, rows_.size() - index * step));
    };
    pool_.parallel_for(tiles, [&](std::size_t index, int worker) {
      Workspace& space = workspace(worker);
      gather(tile(index), space.reader, space.rows[0]);
      for (std::size_t other = index; other < tiles; ++other) {
        gather(tile(other), space.reader, space.columns);
        compare(space.rows[0], index * step, space.columns, other * step, space);
      }
    });
    return std::move(result_);
  }

 private:
  void compare(const LoadedRows& a, std::size_t first, const LoadedRows& b, std::size_t other,
               Workspace& space) {
    double min_cosine = 0;
    {
      const std::lock_guard lock(mutex_);
      min_cosine = result_.min_cosine;
    }
    std::vector<std::size_t> nearly_equal_rows;
    estimate(a, b, space, [&](std::size_t row, std::size_t column, float estimate) {
      if (other + column <= first + row) {
        return;
      }
      if (may_reach(estimate, nearly_equal_)) {
        nearly_equal_rows.push_back(first + row);
        nearly_equal_rows.push_back(other + column);
      }
      // The comparison is negated, so that an estimate of NaN is computed exactly.
      if (!(static_cast<double>(estimate) - static_cast<double>(error_) > min_cosine)) {
        min_cosine = std::min(min_cosine, exact_cosine(a, row, b, column));
      }
    });
    const std::lock_guard lock(mutex_);
    result_.min_cosine = std::min(result_.min_cosine, min_cosine);
    for (const std::size_t index : nearly_equal_rows) {
      result_.nearly_equal_rows[index] = true;
    }
  }

  std::span<const std::int64_t> rows_;
  double nearly_equal_;
  std::mutex mutex_;
  PairsWithin result_;
};

}  // namespace

Lengths measure_lengths(const Shards& shards, ThreadPool& pool) {
  Lengths lengths{std::vector<float>(to_size(shards.rows())),
                  std::vector<double>(to_size(shards.rows()))};
  const std::vector<RowBlock> blocks = shards.blocks(shards.rows_at_once(kRowsPerBlock));
  std::vector<Workspace> workspaces = for_workers(pool, [&] { return Workspace(shards); });
  pool.parallel_for(blocks.size(), [&](std::size_t index, int worker) {
    const RowBlock& block = blocks[index];
    Workspace& space = workspaces[static_cast<std::size_t>(worker)];
    const float* rows = space.reader.read(block, space.columns.vectors);
    inverse_norms(rows, block.count, shards.dimension(), &lengths.inverse[to_size(block.first)]);
    for (std::int64_t row = 0; row < block.count; ++row) {
      lengths.squared[to_size(block.first + row)] = checked_squared_norm(
          shards, block.first + row,
          {rows + to_size(row * shards.dimension()), to_size(shards.dimension())});
    }
  });
  return lengths;
}

std::vector<std::int64_t> rows_with_partners(const Shards& shards, ThreadPool& pool,
                                             const Lengths& lengths, double threshold,
                                             const SearchProgress& progress) {
  return PartnerScan(shards, pool, lengths, threshold, progress).run();
}

std::vector<Group> group_rows(const Shards& shards, ThreadPool& pool, const Lengths& lengths,
                              double threshold, std::span<const std::int64_t> order) {
  return Grouping(shards, pool, lengths, threshold, order).run();
}

PairsWithin compare_within(const Shards& shards, ThreadPool& pool, const Lengths& lengths,
                           std::span<const std::int64_t> rows, double nearly_equal) {
  return WithinScan(shards, pool, lengths, rows, nearly_equal).run();
}

}  // namespace fovea::search
