// Finds nearest neighbours. Estimates with error bounds exclude almost all rows, because their
// scores are proven to be below those of k others. The scores of the other rows are computed in
// binary64, so the result is exact, and does not depend on the instruction set, the number of
// threads, or the kind of estimates.
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
// The number of rows per step, which stay in the L2 cache until they are compared.
constexpr std::int64_t kRowsPerStep = CodeScan::kMaxRows;
// The numbers of rows and queries in a tile of binary32 products, which fit into the L2 cache, too.
constexpr std::int64_t kRowsPerTile = 32;
constexpr std::size_t kQueriesPerTile = 96;
// The maximum number of queries that are compared one by one with uncoded rows.
constexpr std::size_t kSingleQueries = 4;
// The minimum number of queries for which coding the rows pays off in a single search.
constexpr std::size_t kMinQueriesForCodes = 12;
// The maximum number of queries per pass, which limits the memory for candidates.
constexpr std::size_t kQueriesPerPass = 1024;

// The codes of a pass.
struct Codes {
  const RowCoder& coder;
  CodedQueries queries;
  RowCopy* copy;  // the copy that stores the codes of all rows; may be null
};

// Calls `use` with consecutive blocks of at most `rows` rows of a task.
template <typename Use>
void for_each_block(const Shards& shards, const RowBlock& task, std::int64_t rows, const Use& use) {
  const std::int64_t step = shards.rows_at_once(rows);
  for (std::int64_t offset = 0; offset < task.count; offset += step) {
    use(RowBlock{task.shard, task.first + offset, std::min(step, task.count - offset)});
  }
}

// The part of a pass that one thread processes.
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
    const bool one_by_one = queries_.size() <= kSingleQueries;
    for_each_block(shards_, task, one_by_one ? kRowsPerStep : kRowsPerTile,
                   [&](const RowBlock& block) {
                     stored_ = reader_.read(block);
                     converted_ = false;
                     if (one_by_one) {
                       compare_one_by_one(block);
                     } else {
                       compare_in_tiles(block);
                     }
                   });
  }

  // Codes the rows of a task, compares the codes, and stores them if there is a copy. They are
  // written to a buffer of this thread first, because the comparison reads past their end.
  void run_coded(const RowBlock& task) {
    if (!step_codes_) {
      step_codes_ = std::make_unique<RowCopy>(codes_->coder, kRowsPerStep);
    }
    for_each_block(shards_, task, kRowsPerStep, [&](const RowBlock& block) {
      codes_->coder.encode(reader_.read(block), block.count, step_codes_->row_codes(0),
                           step_codes_->terms, 0);
      compare_codes(*step_codes_, 0, block);
      if (codes_->copy != nullptr) {
        codes_->copy->copy_from(*step_codes_, block.count, block.first);
      }
    });
  }

  // Compares the stored codes of a task.
  void run_copy(const RowBlock& task) {
    for_each_block(shards_, task, kRowsPerStep, [&](const RowBlock& block) {
      compare_codes(*codes_->copy, block.first, block);
    });
  }

  // Processes the tiles of a query that another device did not exclude. First raises the floor to
  // the k-th highest lower bound, which excludes most rows.
  void add_tiles(std::span<const TileBounds> tiles) {
    const std::size_t query = tiles.front().query;
    lower_bounds_.clear();
    for_each_row(tiles, [&](std::int64_t /*row*/, const Bounds& bounds) {
      lower_bounds_.push_back(bounds.lower);
    });
    if (lower_bounds_.size() >= k_) {
      const auto floor = lower_bounds_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
      std::ranges::nth_element(lower_bounds_, floor, std::ranges::greater());
      shared_.raise(query, static_cast<double>(*floor));
    }
    for_each_row(tiles, [&](std::int64_t row, const Bounds& bounds) {
      if (!(static_cast<double>(bounds.upper) < candidates_.floor(query))) {
        candidates_.defer(query, row, bounds, reader_);
      }
    });
  }

  // Reads and scores the candidates that were deferred.
  void score_deferred() {
    for (std::size_t query = 0; query < queries_.size(); ++query) {
      candidates_.score_deferred(query, reader_);
    }
  }
  [[nodiscard]] const std::vector<Match>& matches(std::size_t query) const {
    return candidates_.matches(query);
  }

 private:
  // Calls `use` for each row of the tiles that is not excluded from the query.
  template <typename Use>
  void for_each_row(std::span<const TileBounds> tiles, const Use& use) const {
    for (const TileBounds& tile : tiles) {
      for (std::size_t row = 0; row < tile.bounds.size(); ++row) {
        const std::int64_t number = tile.first + static_cast<std::int64_t>(row);
        if (!queries_.excludes(tile.query, number)) {
          use(number, tile.bounds[row]);
        }
      }
    }
  }

  // Compares the codes of a block, which begin at row `first` of `copy`.
  void compare_codes(RowCopy& copy, std::int64_t first, const RowBlock& block) {
    code_scan_->scan(
        copy.row_codes(first), copy.terms.view().subspan(first), block.count,
        [this](std::size_t query) { return candidates_.floor(query); },
        [&](std::size_t query, std::int64_t row, const Bounds& bounds) {
          if (!queries_.excludes(query, block.first + row)) {
            candidates_.defer(query, block.first + row, bounds, reader_);
          }
        });
  }

  // Adds a row, given by its index in the current block, to the candidates.
  void offer(const RowBlock& block, std::size_t query, std::int64_t row) {
    const std::size_t dimension = queries_.dimension;
    if (converted_) {
      candidates_.offer(query, block.first + row,
                        {rows_.data() + static_cast<std::size_t>(row) * dimension, dimension});
      return;
    }
    const std::span vector(ensure_size(row_, dimension), dimension);
    stored_.copy(row, vector);
    candidates_.offer(query, block.first + row, vector);
  }

  // Returns whether the exact score may reach `floor`; true for an estimate of NaN.
  [[nodiscard]] bool may_reach(float estimate, double floor) const {
    return !(static_cast<double>(estimate + error_) < floor);
  }

  void compare_one_by_one(const RowBlock& block) {
    const auto count = static_cast<std::size_t>(block.count);
    float* const dots = ensure_size(dots_, count);
    float* const squares = ensure_size(squares_, count);
    float* const inverse = ensure_size(inverse_, count);
    for (std::size_t query = 0; query < queries_.size(); ++query) {
      const float* const unit = unit_.data() + query * queries_.dimension;
      if (stored_.dtype == DType::kF16) {
        dots_and_squares(reinterpret_cast<const Float16*>(stored_.data), count, unit,
                         queries_.dimension, dots, squares);
      } else {
        dots_and_squares(reinterpret_cast<const float*>(stored_.data), count, unit,
                         queries_.dimension, dots, squares);
      }
      inverse_norms_from_squares(squares, block.count, inverse);
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
    float* const rows = ensure_size(rows_, count * dimension);
    stored_.copy_all(block.count, rows);
    converted_ = true;
    float* const dots = ensure_size(dots_, count * kQueriesPerTile);
    float* const inverse = ensure_size(inverse_, count);
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
  std::span<const float> unit_;  // [n, dimension]; queries of length 1
  const Codes* codes_;
  float error_;
  std::size_t k_;
  SharedFloors& shared_;
  Candidates candidates_;
  std::unique_ptr<CodeScan> code_scan_;
  std::unique_ptr<RowCopy> step_codes_;  // the codes of the current block
  StoredRows stored_;                    // the rows of the current block
  bool converted_ = false;               // whether rows_ has these rows in binary32
  AlignedBuffer<float> rows_;
  AlignedBuffer<float> row_;
  AlignedBuffer<float> dots_;
  AlignedBuffer<float> squares_;
  AlignedBuffer<float> inverse_;
  std::vector<float> lower_bounds_;
};

// Splits the tiles, which are sorted by query, into one span per query.
std::vector<std::span<const TileBounds>> split_by_query(std::span<const TileBounds> tiles) {
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
  const std::lock_guard lock(search_mutex_);
  return copy_ != nullptr;
}

bool Searcher::needs_copy() const {
  // After a second search, more are likely to follow.
  return in_memory_ == RowsInMemory::kAlways || (in_memory_ == RowsInMemory::kAuto && passes_ > 0);
}

// Allocates a copy. Returns null when it would take too large a part of the available memory.
std::unique_ptr<RowCopy> Searcher::allocate_copy() {
  constexpr std::uint64_t kMemoryDivisor = 2;
  if (in_memory_ != RowsInMemory::kAuto ||
      RowCopy::byte_size(coder(), shards_.rows()) <= memory_limit() / kMemoryDivisor) {
    try {
      return std::make_unique<RowCopy>(coder(), shards_.rows());
    } catch (const Error&) {
      if (in_memory_ == RowsInMemory::kAlways) {
        throw;
      }
    }
  }
  in_memory_ = RowsInMemory::kNever;  // searches work without a copy, and do not try again
  return nullptr;
}

const RowCoder& Searcher::coder() {
  if (!coder_) {
    RowReader reader(shards_);
    coder_ = std::make_unique<RowCoder>(shards_, reader);
  }
  return *coder_;
}

// Returns whether another device has the rows; uploads them if needed. When an optional device
// fails, the search continues without it.
bool Searcher::prepare_device() {
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
      disable_device("");
      return false;
    }
    scanner->begin(coder(), shards_.rows(), pool_.threads());
  } catch (const Error& error) {
    if (!other_.is_optional) {
      throw;
    }
    disable_device(error.what());
    return false;
  }
  upload_rows(*scanner);
  scanner_ = std::move(scanner);
  return true;
}

// Makes searches continue without another device. `reason` is empty when there is none.
void Searcher::disable_device(std::string_view reason) {
  other_ = {};
  if (!reason.empty() && listeners_.on_note) {
    listeners_.on_note(fmt::format("the GPU is not used: {}", reason));
  }
}

void Searcher::report_device(Method method) {
  const std::string device =
      method == Method::kDevice
          ? scanner_->description()
          : fmt::format("cpu ({}), {} threads", cpu::isa_name(), pool_.threads());
  if (device != reported_device_ && listeners_.on_device) {
    listeners_.on_device(device);
  }
  reported_device_ = device;
}

void Searcher::upload_rows(RowScanner& scanner) {
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
    for_each_block(shards_, tasks[index], kRowsPerStep, [&](const RowBlock& block) {
      coder_->encode(coding.reader.read(block), block.count, coding.codes.row_codes(0),
                     coding.codes.terms, 0);
      scanner.upload(worker, coding.codes, block.count, block.first);
    });
    report.add(tasks[index].count);
  });
  scanner.end();
}

Searcher::Plan Searcher::choose_method(std::size_t queries) {
  if (copy_) {
    return {Method::kCopy, nullptr};
  }
  if (prepare_device()) {
    return {Method::kDevice, nullptr};
  }
  const bool can_code =
      RowCoder::can_code(shards_.dimension()) && cpu::has_int8() && shards_.rows() > 0;
  std::unique_ptr<RowCopy> copy = can_code && needs_copy() ? allocate_copy() : nullptr;
  if (copy || (can_code && queries >= kMinQueriesForCodes)) {
    return {Method::kCodedRows, std::move(copy)};
  }
  return {Method::kExactRows, nullptr};
}

std::vector<std::vector<Match>> Searcher::nearest(std::span<const float> vectors, int k,
                                                  std::span<const std::int64_t> left_out) {
  if (k < 1) {
    fail("invalid number of neighbours {}; it must be at least 1", k);
  }
  const Queries queries =
      check_queries(vectors, static_cast<std::size_t>(shards_.dimension()), left_out);
  const std::lock_guard lock(search_mutex_);
  cpu::limit_isa_from_environment();
  std::vector<std::vector<Match>> results(queries.size());
  for (std::size_t first = 0; first < queries.size(); first += kQueriesPerPass) {
    const std::size_t count = std::min(kQueriesPerPass, queries.size() - first);
    pass(choose_method(count), queries.subset(first, count), static_cast<std::size_t>(k),
         std::span(results).subspan(first, count));
  }
  return results;
}

void Searcher::pass(Plan plan, const Queries& queries, std::size_t k,
                    std::span<std::vector<Match>> results) {
  const Method method = plan.method;
  report_device(method);
  std::optional<Codes> codes;
  std::vector<float> unit;
  if (method == Method::kExactRows) {
    unit = queries.unit<float>();
  } else if (method != Method::kDevice) {
    codes.emplace(Codes{coder(), CodedQueries(coder(), queries),
                        method == Method::kCopy ? copy_.get() : plan.copy.get()});
  }
  std::optional<OpenShards> open;
  if (method != Method::kExactRows) {
    open.emplace(shards_);  // also detects files that have changed
  }
  SharedFloors shared(queries.size());
  std::vector<Scan> scans = for_workers(pool_, [&] {
    return Scan(shards_, queries, unit, codes ? &*codes : nullptr, k, shared,
                open ? &*open : nullptr);
  });
  Report report(progress_, shards_.rows());
  if (method == Method::kDevice) {
    const std::size_t rank = k + (queries.left_out.empty() ? 0 : 1);
    scanner_->find(coder(), queries, rank, [&](std::span<const TileBounds> tiles) {
      const std::vector<std::span<const TileBounds>> parts = split_by_query(tiles);
      pool_.parallel_for(parts.size(), [&](std::size_t index, int worker) {
        scans[static_cast<std::size_t>(worker)].add_tiles(parts[index]);
      });
    });
    report.add(shards_.rows());
  }
  const std::vector<RowBlock> tasks =
      method == Method::kDevice ? std::vector<RowBlock>{} : shards_.blocks(kRowsPerTask);
  pool_.parallel_for(tasks.size(), [&](std::size_t index, int worker) {
    Scan& scan = scans[static_cast<std::size_t>(worker)];
    const RowBlock& task = tasks[index];
    if (method == Method::kExactRows) {
      scan.run_exact(task);
    } else if (method == Method::kCopy) {
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
  if (method != Method::kExactRows) {
    pool_.parallel_for(scans.size(),
                       [&](std::size_t index, int) { scans[index].score_deferred(); });
  }
  for (std::size_t query = 0; query < queries.size(); ++query) {
    std::vector<Match>& matches = results[query];
    for (const Scan& scan : scans) {
      const std::vector<Match>& thread_matches = scan.matches(query);
      matches.insert(matches.end(), thread_matches.begin(), thread_matches.end());
    }
    std::sort(matches.begin(), matches.end(), is_better);
    matches.resize(std::min(matches.size(), k));
  }
}

}  // namespace fovea::search
