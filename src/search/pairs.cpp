// Compares pairs by binary32 estimates. Those near a threshold are computed in binary64, so that
// results depend neither on the instruction set nor on the threads.
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
// The number of blocks that are kept in memory and compared with each block that is read.
constexpr std::size_t kBlocksTogether = 8;
// The maximum number of rows per round. All later rows are compared with those kept in a round.
constexpr std::size_t kRowsPerRound = 512;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// Rows in memory, which need not be consecutive in their files.
struct Gathered {
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
  std::array<Gathered, kBlocksTogether> rows;
  Gathered columns;
  std::vector<float> dots;
};

class PairScan {
 public:
  PairScan(const Shards& shards, ThreadPool& pool, const Lengths& lengths)
      : shards_(shards),
        pool_(pool),
        lengths_(lengths),
        dimension_(at(shards.dimension())),
        error_(cosine_error(shards.dimension())),
        workspaces_(for_workers(pool, [&] { return Workspace(shards); })) {}

 protected:
  Workspace& workspace(int worker) { return workspaces_[static_cast<std::size_t>(worker)]; }

  // Fills `out` with the rows of a block, all or those that satisfy the condition.
  template <typename Condition>
  void read(const RowBlock& block, Workspace& space, Gathered& out, const Condition& wanted) {
    out.rows.clear();
    for (std::int64_t row = block.first; row < block.first + block.count; ++row) {
      if (wanted(row)) {
        out.rows.push_back(row);
      }
    }
    if (out.rows.empty()) {
      return;
    }
    space.reader.read(block, out.vectors);
    for (std::size_t index = 0; index < out.rows.size(); ++index) {
      const std::size_t from = at(out.rows[index] - block.first);
      if (from != index) {
        std::copy_n(out.vectors.data() + from * dimension_, dimension_,
                    out.vectors.data() + index * dimension_);
      }
    }
  }

  // Fills `out` with the given rows.
  void gather(std::span<const std::int64_t> rows, RowReader& reader, Gathered& out) const {
    out.rows.assign(rows.begin(), rows.end());
    if (out.vectors.size() < rows.size() * dimension_) {
      out.vectors = AlignedBuffer<float>(rows.size() * dimension_);
    }
    for (std::size_t index = 0; index < rows.size(); ++index) {
      const std::vector<float> row = reader.row(rows[index]);
      std::copy(row.begin(), row.end(), out.vectors.data() + index * dimension_);
    }
  }

  // Calls use(index in a, index in b, estimate) for each pair.
  template <typename Use>
  void estimate(const Gathered& a, const Gathered& b, Workspace& space, const Use& use) const {
    const std::size_t width = b.rows.size();
    if (space.dots.size() < a.rows.size() * width) {
      space.dots.resize(a.rows.size() * width);
    }
    dot_products(a.vectors.data(), a.rows.size(), b.vectors.data(), width, dimension_,
                 space.dots.data());
    for (std::size_t row = 0; row < a.rows.size(); ++row) {
      const float inverse = lengths_.inverse[at(a.rows[row])];
      const float* line = space.dots.data() + row * width;
      for (std::size_t column = 0; column < width; ++column) {
        use(row, column, line[column] * inverse * lengths_.inverse[at(b.rows[column])]);
      }
    }
  }

  // Whether the cosine may reach `limit` by its estimate; true for NaN.
  [[nodiscard]] bool may_reach(float estimate, double limit) const {
    return !(static_cast<double>(estimate) + static_cast<double>(error_) < limit);
  }

  [[nodiscard]] double exact(const Gathered& a, std::size_t row, const Gathered& b,
                             std::size_t column) const {
    return cosine(a.vector(row, dimension_), lengths_.squared[at(a.rows[row])],
                  b.vector(column, dimension_), lengths_.squared[at(b.rows[column])]);
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
        has_partner_(at(shards.rows())),
        report_(progress, static_cast<std::int64_t>(blocks_.size() * (blocks_.size() + 1) / 2)) {}

  std::vector<std::int64_t> run() {
    // When there are few blocks, each task takes few of them, so that every thread has work.
    const std::size_t together = std::clamp<std::size_t>(
        blocks_.size() / (4 * static_cast<std::size_t>(pool_.threads())), 1, kBlocksTogether);
    // The first blocks have the most partners, so they are handed out first.
    const std::size_t tasks = (blocks_.size() + together - 1) / together;
    pool_.parallel_for(tasks, [&](std::size_t task, int worker) {
      const std::size_t first = task * together;
      compare_all(first, std::min(first + together, blocks_.size()), workspace(worker));
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
    return has_partner_[at(row)].load(std::memory_order_relaxed);
  }

  // Compares blocks [first, end), which stay in memory, with themselves and with all blocks after
  // them, each of which is read once.
  void compare_all(std::size_t first, std::size_t end, Workspace& space) {
    const auto all = [](std::int64_t) { return true; };
    for (std::size_t index = first; index < end; ++index) {
      read(blocks_[index], space, space.rows[index - first], all);
    }
    std::int64_t pairs = 0;
    for (std::size_t other = first; other < blocks_.size(); ++other) {
      if (other >= end) {
        read(blocks_[other], space, space.columns, all);
      }
      const Gathered& columns = other < end ? space.rows[other - first] : space.columns;
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

  void compare(const Gathered& a, const Gathered& b, Workspace& space) {
    const auto is_known = [&](std::int64_t row) { return has_partner(row); };
    if (std::ranges::all_of(a.rows, is_known) && std::ranges::all_of(b.rows, is_known)) {
      return;
    }
    const bool is_itself = a.rows.front() == b.rows.front();
    estimate(a, b, space, [&](std::size_t row, std::size_t column, float estimate) {
      if (!may_reach(estimate, threshold_) || (is_itself && column <= row) ||
          (has_partner(a.rows[row]) && has_partner(b.rows[column]))) {
        return;
      }
      if (exact(a, row, b, column) >= threshold_) {
        has_partner_[at(a.rows[row])].store(true, std::memory_order_relaxed);
        has_partner_[at(b.rows[column])].store(true, std::memory_order_relaxed);
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
        places_(at(shards.rows())) {
    for (std::size_t place = 0; place < order.size(); ++place) {
      places_[at(order[place])].rank = static_cast<std::int64_t>(place);
    }
  }

  std::vector<Group> run() {
    std::size_t next = 0;
    while (take_round(next)) {
      keep_some();
      join_all();
    }
    return collect();
  }

 private:
  static constexpr std::int64_t kNone = -1;

  // The state of a row.
  struct Place {
    std::int64_t rank = kNone;  // in `order`; kNone for rows that take no part
    std::int64_t kept = kNone;  // the most similar kept row; itself when it is kept
    double score = 0;
  };

  // The next rows, in order, that no kept row has claimed. All kept rows before them are known.
  bool take_round(std::size_t& next) {
    std::vector<std::int64_t> rows;
    for (; next < order_.size() && rows.size() < kRowsPerRound; ++next) {
      if (places_[at(order_[next])].kept == kNone) {
        rows.push_back(order_[next]);
      }
    }
    gather(rows, workspace(0).reader, round_);
    return !rows.empty();
  }

  // Decides which rows of this round are kept, and removes the others from it. Those that have been
  // claimed by then may be more similar to kept rows that come later, but not kept any more.
  void keep_some() {
    std::vector<std::vector<std::pair<std::size_t, float>>> before(round_.rows.size());
    estimate(round_, round_, workspace(0), [&](std::size_t row, std::size_t column, float score) {
      if (column < row && may_reach(score, threshold_)) {
        before[row].emplace_back(column, score);
      }
    });
    std::vector<std::size_t> kept;
    for (std::size_t row = 0; row < round_.rows.size(); ++row) {
      for (const auto& [column, estimate] : before[row]) {
        if (places_[at(round_.rows[column])].kept == round_.rows[column]) {
          offer(round_, row, column);
        }
      }
      Place& place = places_[at(round_.rows[row])];
      if (place.kept == kNone) {
        place = {place.rank, round_.rows[row], 1};
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

  // Offers the kept rows of this round to all rows after them.
  void join_all() {
    const std::int64_t first = places_[at(round_.rows.front())].rank;
    const auto may_join = [&](std::int64_t row) {
      return places_[at(row)].rank > first && places_[at(row)].kept != row;
    };
    const std::vector<RowBlock> blocks = shards_.blocks(shards_.rows_at_once(kRowsPerBlock));
    pool_.parallel_for(blocks.size(), [&](std::size_t index, int worker) {
      Workspace& space = workspace(worker);
      read(blocks[index], space, space.columns, may_join);
      if (space.columns.rows.empty()) {
        return;
      }
      estimate(space.columns, round_, space,
               [&](std::size_t row, std::size_t column, float estimate) {
                 const Place& place = places_[at(space.columns.rows[row])];
                 if (may_reach(estimate, std::max(threshold_, place.score)) &&
                     places_[at(round_.rows[column])].rank < place.rank) {
                   offer(space.columns, row, column);
                 }
               });
    });
  }

  // Makes a row of `rows` a member of the kept row `column` of this round if that is within the
  // threshold and more similar than the kept row it has.
  void offer(const Gathered& rows, std::size_t row, std::size_t column) {
    const double score = exact(rows, row, round_, column);
    Place& place = places_[at(rows.rows[row])];
    if (score >= threshold_ && (place.kept == kNone || score > place.score)) {
      place.kept = round_.rows[column];
      place.score = score;
    }
  }

  std::vector<Group> collect() const {
    std::vector<Group> groups;
    std::vector<std::size_t> group_of(order_.size());  // by the rank of the kept row
    for (const std::int64_t row : order_) {
      const Place& place = places_[at(row)];
      std::size_t& group = group_of[at(places_[at(place.kept)].rank)];
      if (place.kept == row) {
        group = groups.size();
        groups.push_back({row, {}});
      } else {
        groups[group].members.push_back({row, place.score});
      }
    }
    std::erase_if(groups, [](const Group& group) { return group.members.empty(); });
    const auto key = [&](const Match& match) {
      return std::pair(-match.score, places_[at(match.row)].rank);
    };
    for (Group& group : groups) {
      std::ranges::sort(group.members, {}, key);
    }
    return groups;
  }

  double threshold_;
  std::span<const std::int64_t> order_;
  std::vector<Place> places_;
  Gathered round_;  // the rows of this round; after keep_some() those that are kept
};

class WithinScan : PairScan {
 public:
  WithinScan(const Shards& shards, ThreadPool& pool, const Lengths& lengths,
             std::span<const std::int64_t> rows, double nearly_equal)
      : PairScan(shards, pool, lengths), rows_(rows), nearly_equal_(nearly_equal) {
    result_.near.resize(rows.size());
  }

  PairsWithin run() {
    const auto step = at(shards_.rows_at_once(kRowsPerBlock));
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
  void compare(const Gathered& a, std::size_t first, const Gathered& b, std::size_t other,
               Workspace& space) {
    double lowest = 0;
    {
      const std::lock_guard lock(mutex_);
      lowest = result_.lowest;
    }
    std::vector<std::size_t> near;
    estimate(a, b, space, [&](std::size_t row, std::size_t column, float estimate) {
      if (other + column <= first + row) {
        return;
      }
      if (may_reach(estimate, nearly_equal_)) {
        near.push_back(first + row);
        near.push_back(other + column);
      }
      // Negated, so that NaN is computed exactly.
      if (!(static_cast<double>(estimate) - static_cast<double>(error_) > lowest)) {
        lowest = std::min(lowest, exact(a, row, b, column));
      }
    });
    const std::lock_guard lock(mutex_);
    result_.lowest = std::min(result_.lowest, lowest);
    for (const std::size_t index : near) {
      result_.near[index] = true;
    }
  }

  std::span<const std::int64_t> rows_;
  double nearly_equal_;
  std::mutex mutex_;
  PairsWithin result_;
};

}  // namespace

Lengths measure(const Shards& shards, ThreadPool& pool) {
  Lengths lengths{std::vector<float>(at(shards.rows())), std::vector<double>(at(shards.rows()))};
  const std::vector<RowBlock> blocks = shards.blocks(shards.rows_at_once(kRowsPerBlock));
  std::vector<Workspace> workspaces = for_workers(pool, [&] { return Workspace(shards); });
  pool.parallel_for(blocks.size(), [&](std::size_t index, int worker) {
    const RowBlock& block = blocks[index];
    Workspace& space = workspaces[static_cast<std::size_t>(worker)];
    const float* rows = space.reader.read(block, space.columns.vectors);
    inverse_norms(rows, block.count, shards.dimension(), &lengths.inverse[at(block.first)]);
    for (std::int64_t row = 0; row < block.count; ++row) {
      lengths.squared[at(block.first + row)] = checked_squared_norm(
          shards, block.first + row, {rows + at(row * shards.dimension()), at(shards.dimension())});
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
