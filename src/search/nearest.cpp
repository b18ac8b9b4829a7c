// Estimates with error bounds exclude almost every row, whose score is proven to be below that of k
// others. The scores of the rest are computed in binary64, so the result is exact and does not
// depend on the instruction set, the threads, or the kind of estimates.
#include "search/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/memory_limit.hpp"
#include "cpu/isa.hpp"
#include "search/best.hpp"
#include "search/candidates.hpp"
#include "search/code_scan.hpp"
#include "search/cosine.hpp"
#include "search/dot_kernels.hpp"
#include "search/report.hpp"
#include "search/row_scanner.hpp"

namespace fovea::search {
namespace {

constexpr std::int64_t kRowsPerTask = 1024;
// The rows per step, which stay in the L2 cache until they are compared.
constexpr std::int64_t kRowsPerStep = CodeScan::kMaxRows;
// The numbers of rows and queries that are compared in binary32 at a time, for the same reason.
constexpr std::int64_t kRowsPerTile = 32;
constexpr std::size_t kQueriesPerTile = 96;
// The largest number of queries that are compared one by one with uncoded rows.
constexpr std::size_t kSingleQueries = 4;
// The number of queries from which making codes pays off for a single search.
constexpr std::size_t kQueriesForCodes = 12;
// The maximum number of queries per pass, which bounds the memory for candidates.
constexpr std::size_t kQueriesPerPass = 1024;

// The source of a pass's codes, and the copy in which they are kept.
struct Codes {
  const RowCoder& coder;
  CodedQueries queries;
  RowCopy* copy;  // null: nowhere
};

// Calls `use` for blocks of at most `rows` rows of a task.
template <typename Use>
void for_steps(const Shards& shards, const RowBlock& task, std::int64_t rows, const Use& use) {
  const std::int64_t step = shards.rows_at_once(rows);
  for (std::int64_t done = 0; done < task.count; done += step) {
    use(RowBlock{task.shard, task.first + done, std::min(step, task.count - done)});
  }
}

// One thread's share of a pass.
class Scan {
 public:
  Scan(const Shards& shards, const Queries& queries, std::span<const float> unit,
       const Codes* codes, std::size_t k, SharedFloors& shared, const OpenShards* open)
      : shards_(shards),
        reader_(shards, open),
        queries_(queries),
        unit_(unit),
        codes_(codes),
        error_(cosine_error(shards.dimension())),
        k_(k),
        shared_(shared),
        candidates_(shards, queries, k, shared) {
    if (codes != nullptr) {
      code_scan_ = std::make_unique<CodeScan>(codes->queries);
    }
  }

  // Compares the uncoded rows of a task.
  void run_exact(const RowBlock& task) {
    const bool singly = queries_.size() <= kSingleQueries;
    for_steps(shards_, task, singly ? kRowsPerStep : kRowsPerTile, [&](const RowBlock& block) {
      stored_ = reader_.read(block);
      converted_ = false;
      if (singly) {
        compare_singly(block);
      } else {
        compare_in_tiles(block);
      }
    });
  }

  // Makes the codes of a task, compares them, and stores them if there is a copy. They are made in
  // thread-private memory, because the comparison reads past their end.
  void run_coded(const RowBlock& task) {
    if (!step_codes_) {
      step_codes_ = std::make_unique<RowCopy>(codes_->coder, kRowsPerStep);
    }
    for_steps(shards_, task, kRowsPerStep, [&](const RowBlock& block) {
      codes_->coder.encode(reader_.read(block), block.count, step_codes_->codes_of(0),
                           step_codes_->terms, 0);
      compare_codes(*step_codes_, 0, block);
      if (codes_->copy != nullptr) {
        codes_->copy->take(*step_codes_, block.count, block.first);
      }
    });
  }

  // Compares the stored codes of a task.
  void run_copy(const RowBlock& task) {
    for_steps(shards_, task, kRowsPerStep,
              [&](const RowBlock& block) { compare_codes(*codes_->copy, block.first, block); });
  }

  // Processes the tiles that another device could not exclude for a query. First raises the floor
  // to the k-th highest lower bound, which excludes most rows.
  void take(std::span<const TileBounds> tiles) {
    const std::size_t query = tiles.front().query;
    lowers_.clear();
    for_rows(tiles,
             [&](std::int64_t /*row*/, const Bounds& bounds) { lowers_.push_back(bounds.lower); });
    if (lowers_.size() >= k_) {
      const auto floor = lowers_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
      std::ranges::nth_element(lowers_, floor, std::ranges::greater());
      shared_.raise(query, static_cast<double>(*floor));
    }
    for_rows(tiles, [&](std::int64_t row, const Bounds& bounds) {
      if (!(static_cast<double>(bounds.upper) < candidates_.floor(query))) {
        candidates_.offer_later(query, row, bounds, reader_);
      }
    });
  }

  void settle() {
    for (std::size_t query = 0; query < queries_.size(); ++query) {
      candidates_.settle(query, reader_);
    }
  }
  [[nodiscard]] const std::vector<Match>& matches(std::size_t query) const {
    return candidates_.matches(query);
  }

 private:
  // Calls `use` for each row of the tiles that the query may find.
  template <typename Use>
  void for_rows(std::span<const TileBounds> tiles, const Use& use) const {
    for (const TileBounds& tile : tiles) {
      for (std::size_t row = 0; row < tile.bounds.size(); ++row) {
        const std::int64_t number = tile.first + static_cast<std::int64_t>(row);
        if (!queries_.leaves_out(tile.query, number)) {
          use(number, tile.bounds[row]);
        }
      }
    }
  }

  // Compares the rows of a block, whose codes begin at row `first` of `copy`.
  void compare_codes(RowCopy& copy, std::int64_t first, const RowBlock& block) {
    code_scan_->scan(
        copy.codes_of(first), copy.terms.view().from(first), block.count,
        [this](std::size_t query) { return candidates_.floor(query); },
        [&](std::size_t query, std::int64_t row, const Bounds& bounds) {
          if (!queries_.leaves_out(query, block.first + row)) {
            candidates_.offer_later(query, block.first + row, bounds, reader_);
          }
        });
  }

  // Offers a row, by its index in the current block, as a candidate.
  void offer(const RowBlock& block, std::size_t query, std::int64_t row) {
    const std::size_t dimension = queries_.dimension;
    if (converted_) {
      candidates_.offer(query, block.first + row,
                        {rows_.data() + static_cast<std::size_t>(row) * dimension, dimension});
      return;
    }
    const std::span vector(grown(row_, dimension), dimension);
    stored_.copy(row, vector);
    candidates_.offer(query, block.first + row, vector);
  }

  // Negated, so that NaN is computed exactly.
  [[nodiscard]] bool may_reach(float estimate, double floor) const {
    return !(static_cast<double>(estimate + error_) < floor);
  }

  void compare_singly(const RowBlock& block) {
    const auto count = static_cast<std::size_t>(block.count);
    float* const dots = grown(dots_, count);
    float* const squares = grown(squares_, count);
    float* const inverse = grown(inverse_, count);
    for (std::size_t query = 0; query < queries_.size(); ++query) {
      const float* const unit = unit_.data() + query * queries_.dimension;
      if (stored_.dtype == DType::kF16) {
        dots_and_squares(reinterpret_cast<const Float16*>(stored_.data), count, unit,
                         queries_.dimension, dots, squares);
      } else {
        dots_and_squares(reinterpret_cast<const float*>(stored_.data), count, unit,
                         queries_.dimension, dots, squares);
      }
      inverse_norms_of(squares, block.count, inverse);
      for (std::size_t row = 0; row < count; ++row) {
        if (may_reach(dots[row] * inverse[row], candidates_.floor(query))) {
          offer(block, query, static_cast<std::int64_t>(row));
        }
      }
    }
  }

  void compare_in_tiles(const RowBlock& block) {
    const auto count = static_cast<std::size_t>(block.count);
    const std::size_t dimension = queries_.dimension;
    float* const rows = grown(rows_, count * dimension);
    stored_.copy_all(block.count, rows);
    converted_ = true;
    float* const dots = grown(dots_, count * kQueriesPerTile);
    float* const inverse = grown(inverse_, count);
    inverse_norms(rows, block.count, shards_.dimension(), inverse);
    for (std::size_t first = 0; first < queries_.size(); first += kQueriesPerTile) {
      const std::size_t columns = std::min(kQueriesPerTile, queries_.size() - first);
      dot_products(rows, count, unit_.data() + first * dimension, columns, dimension, dots);
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t column = 0; column < columns; ++column) {
          if (may_reach(dots[row * columns + column] * inverse[row],
                        candidates_.floor(first + column))) {
            offer(block, first + column, static_cast<std::int64_t>(row));
          }
        }
      }
    }
  }

  const Shards& shards_;
  RowReader reader_;
  const Queries& queries_;
  std::span<const float> unit_;  // [n, dimension], of length 1
  const Codes* codes_;
  float error_;
  std::size_t k_;
  SharedFloors& shared_;
  Candidates candidates_;
  std::unique_ptr<CodeScan> code_scan_;
  std::unique_ptr<RowCopy> step_codes_;  // of one step
  StoredRows stored_;                    // of one step
  bool converted_ = false;               // whether rows_ has them
  AlignedBuffer<float> rows_;
  AlignedBuffer<float> row_;
  AlignedBuffer<float> dots_;
  AlignedBuffer<float> squares_;
  AlignedBuffer<float> inverse_;
  std::vector<float> lowers_;
};

// Splits the tiles, which are sorted by query, into one span per query.
std::vector<std::span<const TileBounds>> by_query(std::span<const TileBounds> tiles) {
  std::vector<std::span<const TileBounds>> parts;
  while (!tiles.empty()) {
    const auto end = std::ranges::upper_bound(tiles, tiles.front().query, {}, &TileBounds::query);
    const auto count = static_cast<std::size_t>(end - tiles.begin());
    parts.push_back(tiles.first(count));
    tiles = tiles.subspan(count);
  }
  return parts;
}

}  // namespace

bool Searcher::has_copy() {
  const std::lock_guard turn(turn_);
  return copy_ != nullptr;
}

bool Searcher::wants_copy() const {
  // A second search suggests that more will follow.
  return in_memory_ == RowsInMemory::kAlways || (in_memory_ == RowsInMemory::kAuto && passes_ > 0);
}

// Allocates a copy; null when it would take too large a part of the available memory.
std::unique_ptr<RowCopy> Searcher::room_for_copy() {
  constexpr std::uint64_t kPart = 2;
  if (in_memory_ != RowsInMemory::kAuto ||
      RowCopy::bytes_of(coder(), shards_.rows()) <= memory_limit() / kPart) {
    try {
      return std::make_unique<RowCopy>(coder(), shards_.rows());
    } catch (const Error&) {
      if (in_memory_ == RowsInMemory::kAlways) {
        throw;
      }
    }
  }
  in_memory_ = RowsInMemory::kNever;  // the search does without
  return nullptr;
}

const RowCoder& Searcher::coder() {
  if (!coder_) {
    RowReader reader(shards_);
    coder_ = std::make_unique<RowCoder>(shards_, reader);
  }
  return *coder_;
}

// Whether another device holds the rows. Uploads them if needed; for an optional device, a failure
// is not an error.
bool Searcher::device_is_ready() {
  if (scanner_) {
    return true;
  }
  if (!other_.open || shards_.rows() == 0 || (other_.is_optional && passes_ == 0)) {
    return false;
  }
  std::shared_ptr<RowScanner> scanner;
  try {
    scanner = other_.open();
    if (!scanner) {
      give_up_device("");
      return false;
    }
    scanner->begin(coder(), shards_.rows(), pool_.threads());
  } catch (const Error& error) {
    if (!other_.is_optional) {
      throw;
    }
    give_up_device(error.what());
    return false;
  }
  fill(*scanner);
  scanner_ = std::move(scanner);
  return true;
}

// Continues without another device. `why` is empty when there is no device.
void Searcher::give_up_device(std::string_view why) {
  other_ = {};
  if (!why.empty() && listeners_.on_note) {
    listeners_.on_note(fmt::format("the GPU is not used: {}", why));
  }
}

void Searcher::tell_place(Way way) {
  const std::string place =
      way == Way::kDevice ? scanner_->description()
                          : fmt::format("cpu ({}), {} threads", cpu::isa_name(), pool_.threads());
  if (place != place_ && listeners_.on_device) {
    listeners_.on_device(place);
  }
  place_ = place;
}

void Searcher::fill(RowScanner& scanner) {
  const OpenShards open(shards_);
  struct Coding {
    RowReader reader;
    RowCopy codes;
  };
  std::vector<Coding> threads = for_workers(
      pool_, [&] { return Coding{RowReader(shards_, &open), RowCopy(coder(), kRowsPerStep)}; });
  const std::vector<RowBlock> tasks = shards_.blocks(kRowsPerTask);
  Report report(progress_, shards_.rows());
  pool_.parallel_for(tasks.size(), [&](std::size_t index, int worker) {
    Coding& coding = threads[static_cast<std::size_t>(worker)];
    for_steps(shards_, tasks[index], kRowsPerStep, [&](const RowBlock& block) {
      coder_->encode(coding.reader.read(block), block.count, coding.codes.codes_of(0),
                     coding.codes.terms, 0);
      scanner.put(worker, coding.codes, block.count, block.first);
    });
    report.add(tasks[index].count);
  });
  scanner.end();
}

Searcher::Plan Searcher::choose(std::size_t queries) {
  if (copy_) {
    return {Way::kCopy, nullptr};
  }
  if (device_is_ready()) {
    return {Way::kDevice, nullptr};
  }
  const bool can_code =
      RowCoder::can_code(shards_.dimension()) && cpu::has_int8() && shards_.rows() > 0;
  std::unique_ptr<RowCopy> copy = can_code && wants_copy() ? room_for_copy() : nullptr;
  if (copy || (can_code && queries >= kQueriesForCodes)) {
    return {Way::kCodedRows, std::move(copy)};
  }
  return {Way::kExactRows, nullptr};
}

std::vector<std::vector<Match>> Searcher::nearest(std::span<const float> vectors, int k,
                                                  std::span<const std::int64_t> left_out) {
  if (k < 1) {
    fail("invalid number of neighbours {}; it must be at least 1", k);
  }
  const Queries queries =
      check_queries(vectors, static_cast<std::size_t>(shards_.dimension()), left_out);
  const std::lock_guard turn(turn_);
  cpu::limit_isa_from_environment();
  std::vector<std::vector<Match>> results(queries.size());
  for (std::size_t first = 0; first < queries.size(); first += kQueriesPerPass) {
    const std::size_t count = std::min(kQueriesPerPass, queries.size() - first);
    pass(choose(count), queries.part(first, count), static_cast<std::size_t>(k),
         std::span(results).subspan(first, count));
  }
  return results;
}

void Searcher::pass(Plan plan, const Queries& queries, std::size_t k,
                    std::span<std::vector<Match>> results) {
  const Way way = plan.way;
  tell_place(way);
  std::optional<Codes> codes;
  std::vector<float> unit;
  if (way == Way::kExactRows) {
    unit = queries.unit<float>();
  } else if (way != Way::kDevice) {
    codes.emplace(Codes{coder(), CodedQueries(coder(), queries),
                        way == Way::kCopy ? copy_.get() : plan.copy.get()});
  }
  std::optional<OpenShards> open;
  if (way != Way::kExactRows) {
    open.emplace(shards_);  // which finds files that have changed, too
  }
  SharedFloors shared(queries.size());
  std::vector<Scan> scans = for_workers(pool_, [&] {
    return Scan(shards_, queries, unit, codes ? &*codes : nullptr, k, shared,
                open ? &*open : nullptr);
  });
  Report report(progress_, shards_.rows());
  if (way == Way::kDevice) {
    const std::size_t rank = k + (queries.left_out.empty() ? 0 : 1);
    scanner_->find(coder(), queries, rank, [&](std::span<const TileBounds> tiles) {
      const std::vector<std::span<const TileBounds>> parts = by_query(tiles);
      pool_.parallel_for(parts.size(), [&](std::size_t index, int worker) {
        scans[static_cast<std::size_t>(worker)].take(parts[index]);
      });
    });
    report.add(shards_.rows());
  }
  const std::vector<RowBlock> tasks =
      way == Way::kDevice ? std::vector<RowBlock>{} : shards_.blocks(kRowsPerTask);
  pool_.parallel_for(tasks.size(), [&](std::size_t index, int worker) {
    Scan& scan = scans[static_cast<std::size_t>(worker)];
    const RowBlock& task = tasks[index];
    if (way == Way::kExactRows) {
      scan.run_exact(task);
    } else if (way == Way::kCopy) {
      scan.run_copy(task);
    } else {
      scan.run_coded(task);
    }
    report.add(task.count);
  });
  if (plan.copy) {
    copy_ = std::move(plan.copy);
  }
  ++passes_;
  if (way != Way::kExactRows) {
    pool_.parallel_for(scans.size(), [&](std::size_t index, int) { scans[index].settle(); });
  }
  for (std::size_t query = 0; query < queries.size(); ++query) {
    std::vector<Match>& found = results[query];
    for (const Scan& scan : scans) {
      const std::vector<Match>& part = scan.matches(query);
      found.insert(found.end(), part.begin(), part.end());
    }
    std::sort(found.begin(), found.end(), is_better);
    found.resize(std::min(found.size(), k));
  }
}

}  // namespace fovea::search
