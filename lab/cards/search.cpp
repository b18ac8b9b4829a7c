// Cards of the exact search's kernels. Bounds are compared with a float64 result, lists bit for
// bit.
#include "gpu/launch/search.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/search/search_params.hpp"
#include "lab/cards/operator_workload.hpp"
#include "lab/cards/registry.hpp"

namespace fovea::lab {
namespace {

using row_search::kTileRows;

/// Bounds of the scores of queries: the best per tile of rows, or those of all rows in `pairs`
/// pairs (query, tile).
struct BoundsProblem {
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  std::int64_t queries = 0;
  std::int64_t pairs = 0;  // 0: compute the best per tile

  [[nodiscard]] std::int64_t tiles() const { return gpu::search_tiles(rows); }
};

std::string to_string(const BoundsProblem& problem) {
  const std::string all = gpu::to_string(gpu::SearchProblem{
      .rows = problem.rows, .stride = problem.stride, .queries = problem.queries});
  return problem.pairs == 0 ? "bounds of tiles, " + all
                            : fmt::format("bounds of the rows of {} tiles, {}", problem.pairs, all);
}

Support can_run(const BoundsProblem& problem, const gpu::DeviceInfo& device) {
  return gpu::can_run(
      gpu::SearchProblem{
          .rows = problem.rows, .stride = problem.stride, .queries = problem.queries},
      device);
}

/// Mistakes that a wrong kernel could make.
enum class BoundsMistake : std::uint8_t {
  kNone,
  kNoAlong,
  kNoLength,
  kNoError,
  kNoOffset,
  kNoLowByte,
  kNextQuery,
  kShortTile
};

class BoundsWorkload final : public OperatorWorkload<BoundsWorkload, BoundsProblem> {
 public:
  BoundsWorkload(const BoundsProblem& problem, std::uint64_t seed)
      : OperatorWorkload(problem), fine_(problem.pairs > 0 || problem.queries <= kFewQueries) {
    std::mt19937_64 random(seed);
    // The kernel reads whole tiles, beyond the last row.
    const std::int64_t room = problem.tiles() * kTileRows;
    const std::int64_t beyond = row_search::kBytesBeyond / problem.stride + 1;
    inputs_.push_back(Tensor::random("codes", DType::kU8, room + beyond, problem.stride,
                                     {120.0, 40.0}, seed * 3));
    std::uniform_real_distribution<double> part(0.5, 1.5);
    std::vector<double> terms;
    terms.reserve(static_cast<std::size_t>(4 * room));
    for (std::int64_t row = 0; row < room; ++row) {
      for (const double size : {0.003, 0.4, 0.5, 0.05}) {
        terms.push_back(size * part(random));
      }
    }
    inputs_.push_back(Tensor::from_values("terms", DType::kF32, room, 4, terms));
    draw_queries(random, part);
    if (problem.pairs > 0) {
      for (std::int64_t i = 0; i < problem.pairs; ++i) {
        pairs_.push_back(
            {static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(problem.queries)),
             static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(problem.tiles()))});
      }
      pairs_.back().tile = static_cast<std::int32_t>(problem.tiles() - 1);
      inputs_.push_back(Tensor::raw("pairs", std::as_bytes(std::span(pairs_))));
    }
  }

  [[nodiscard]] OutputSpec output() const override {
    return {.type = DType::kF32,
            .rows = problem_.pairs > 0 ? problem_.pairs : problem_.queries,
            .columns = problem_.pairs > 0 ? 2 * kTileRows : 2 * problem_.tiles()};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    const gpu::SearchRows rows{.codes = operands.inputs[kCodes],
                               .terms = operands.inputs[kTerms],
                               .count = problem_.rows,
                               .stride = problem_.stride};
    if (problem_.pairs > 0) {
      return {gpu::bounds_launch(device.info(), rows, problem_.pairs,
                                 {.queries = operands.inputs[kQueries],
                                  .query_terms = operands.inputs[kQueryTerms],
                                  .pairs = operands.inputs[kPairs],
                                  .bounds = operands.output})};
    }
    const gpu::ScanPlan plan = gpu::plan_scan(
        {.rows = problem_.rows, .stride = problem_.stride, .queries = problem_.queries},
        device.info());
    return {gpu::scan_launch(device.info(), plan, rows, problem_.queries,
                             {.queries = operands.inputs[kQueries],
                              .query_terms = operands.inputs[kQueryTerms],
                              .best = operands.output})};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    fill<double>(tile, values);
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    fill<float>(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    std::vector<Mutant> all{
        {"codes shifted by one row", with_input(kCodes, inputs_[kCodes].rows_moved(1))},
        {"terms shifted by one row", with_input(kTerms, inputs_[kTerms].rows_moved(1))}};
    const auto add = [&](std::string name, BoundsMistake mistake) {
      all.push_back(mutant_with(std::move(name), &BoundsWorkload::mistake_, mistake));
    };
    add("skip the shared direction", BoundsMistake::kNoAlong);
    add("skip the query's rest", BoundsMistake::kNoLength);
    add("skip the row's rest", BoundsMistake::kNoError);
    add("skip the codes' offset", BoundsMistake::kNoOffset);
    add("terms of the next query", BoundsMistake::kNextQuery);
    if (fine_) {
      add("skip the low byte", BoundsMistake::kNoLowByte);
    }
    if (problem_.pairs == 0) {
      add("half of each tile skipped", BoundsMistake::kShortTile);
    }
    return all;
  }
  [[nodiscard]] TorchTask torch_task() const override {
    return {.why_not = "torch has no product of 8-bit codes with these bounds"};
  }
  [[nodiscard]] double flops() const override {
    const std::int64_t rows =
        problem_.pairs > 0 ? problem_.pairs * kTileRows : problem_.rows * problem_.queries;
    return 2.0 * (fine_ ? 2.0 : 1.0) * static_cast<double>(rows * problem_.stride);
  }
  [[nodiscard]] DType operand_type() const override { return DType::kI8; }

 private:
  static constexpr std::size_t kCodes = 0;
  static constexpr std::size_t kTerms = 1;
  static constexpr std::size_t kQueries = 2;
  static constexpr std::size_t kQueryTerms = 3;
  static constexpr std::size_t kPairs = 4;
  static constexpr std::int64_t kFewQueries = 8;  // maximal number of queries with 16-bit codes
  static constexpr std::int64_t kMaxBatch = 64;

  void draw_queries(std::mt19937_64& random, std::uniform_real_distribution<double>& part) {
    const int largest = fine_ ? 2000 : 127;
    const std::int64_t together = fine_ ? kFewQueries : kMaxBatch;
    const std::int64_t room = (problem_.queries + together - 1) / together * together;
    std::normal_distribution<double> normal(largest / 20.0, largest / 3.0);
    query_codes_.resize(static_cast<std::size_t>(room * problem_.stride));
    query_terms_.resize(static_cast<std::size_t>(room));
    for (std::int64_t query = 0; query < problem_.queries; ++query) {
      std::int32_t sum = 0;
      for (std::int64_t byte = 0; byte < problem_.stride; ++byte) {
        const double code =
            std::clamp(std::nearbyint(normal(random)), -1.0 * largest, 1.0 * largest);
        query_codes_[static_cast<std::size_t>(query * problem_.stride + byte)] =
            static_cast<std::int16_t>(code);
        sum += static_cast<std::int32_t>(code);
      }
      constexpr std::int32_t kOffset = 128;
      query_terms_[static_cast<std::size_t>(query)] = {
          static_cast<float>(0.5 / largest * part(random)), static_cast<float>(0.5 * part(random)),
          static_cast<float>(0.1 * part(random)), kOffset * sum};
    }
    const std::vector<std::int8_t> packed = gpu::pack_queries(query_codes_, problem_.stride, fine_);
    inputs_.push_back(Tensor::raw("queries", std::as_bytes(std::span(packed))));
    inputs_.push_back(Tensor::raw("query_terms", std::as_bytes(std::span(query_terms_))));
  }

  struct RowBounds {
    double lower = -std::numeric_limits<double>::infinity();
    double upper = -std::numeric_limits<double>::infinity();
  };

  template <typename Number>
  [[nodiscard]] RowBounds row_bounds(std::int64_t row, std::span<const float> codes,
                                     std::int64_t query) const {
    if (mistake_ == BoundsMistake::kNextQuery) {
      query = (query + 1) % std::max<std::int64_t>(2, problem_.queries);
    }
    const std::int16_t* const codes_of_query = query_codes_.data() + query * problem_.stride;
    std::int32_t sum = 0;
    for (std::size_t byte = 0; byte < codes.size(); ++byte) {
      const std::int32_t code =
          mistake_ == BoundsMistake::kNoLowByte
              ? (codes_of_query[byte] + row_search::kHigh / 2) & ~(row_search::kHigh - 1)
              : codes_of_query[byte];
      sum += static_cast<std::int32_t>(codes[byte]) * code;
    }
    const row_search::QueryTerms& other = query_terms_[static_cast<std::size_t>(query)];
    sum -= mistake_ == BoundsMistake::kNoOffset ? 0 : other.offset;
    const auto term = [&](std::int64_t which, BoundsMistake without) {
      return mistake_ == without ? Number{0} : static_cast<Number>(inputs_[kTerms].at(row, which));
    };
    // Every mutant applies the scale.
    const Number middle = static_cast<Number>(sum) *
                              static_cast<Number>(inputs_[kTerms].at(row, 0)) *
                              static_cast<Number>(other.scale) +
                          term(1, BoundsMistake::kNoAlong) * static_cast<Number>(other.along);
    const Number error = term(2, BoundsMistake::kNoLength) * static_cast<Number>(other.length) +
                         term(3, BoundsMistake::kNoError);
    return {static_cast<double>(middle - error), static_cast<double>(middle + error)};
  }

  /// Computes the best bounds per tile for queries from `first` on; each row's codes are read once.
  template <typename Number>
  [[nodiscard]] std::vector<RowBounds> tile_bounds(std::int64_t tile, std::int64_t first,
                                                   std::int64_t count) const {
    const std::int64_t begin = tile * kTileRows;
    const std::int64_t rows = mistake_ == BoundsMistake::kShortTile ? kTileRows / 2 : kTileRows;
    std::vector<RowBounds> best(static_cast<std::size_t>(count));
    for (std::int64_t row = begin; row < std::min(begin + rows, problem_.rows); ++row) {
      const std::vector<float> codes = inputs_[kCodes].row(row);
      for (std::int64_t query = 0; query < count; ++query) {
        const RowBounds bounds = row_bounds<Number>(row, codes, first + query);
        RowBounds& best_bounds = best[static_cast<std::size_t>(query)];
        best_bounds.lower = std::max(best_bounds.lower, bounds.lower);
        best_bounds.upper = std::max(best_bounds.upper, bounds.upper);
      }
    }
    return best;
  }

  template <typename Number>
  void fill(const Tile& tile, std::span<double> values) const {
    for (std::int64_t i = 0; i < tile.columns; ++i) {
      const std::int64_t column = tile.column + i;
      if (problem_.pairs == 0) {
        const std::vector<RowBounds> best =
            tile_bounds<Number>(column % problem_.tiles(), tile.row, tile.rows);
        for (std::int64_t line = 0; line < tile.rows; ++line) {
          const RowBounds& bounds = best[static_cast<std::size_t>(line)];
          values[static_cast<std::size_t>(line * tile.columns + i)] =
              column < problem_.tiles() ? bounds.lower : bounds.upper;
        }
        continue;
      }
      for (std::int64_t line = 0; line < tile.rows; ++line) {
        const row_search::Pair& pair = pairs_[static_cast<std::size_t>(tile.row + line)];
        const std::int64_t row = pair.tile * std::int64_t{kTileRows} + column / 2;
        const RowBounds bounds = row < problem_.rows
                                     ? row_bounds<Number>(row, inputs_[kCodes].row(row), pair.query)
                                     : RowBounds{0, 0};
        values[static_cast<std::size_t>(line * tile.columns + i)] =
            column % 2 == 0 ? bounds.lower : bounds.upper;
      }
    }
  }

  bool fine_;
  std::vector<std::int16_t> query_codes_;
  std::vector<row_search::QueryTerms> query_terms_;
  std::vector<row_search::Pair> pairs_;
  BoundsMistake mistake_ = BoundsMistake::kNone;
};

/// Workload for the selection of tiles: its outputs are compared bit for bit.
class PickWorkload final : public OperatorWorkload<PickWorkload, gpu::PickProblem> {
 public:
  PickWorkload(const gpu::PickProblem& problem, std::uint64_t seed)
      : OperatorWorkload(problem, {Tensor::random("best", DType::kF32, 2 * problem.queries,
                                                  problem.tiles, {0.05, 0.2}, seed)}) {}

  [[nodiscard]] OutputSpec output() const override {
    return {.type = DType::kU8, .rows = problem_.queries, .columns = 4 * (2 + problem_.capacity)};
  }
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& /*plan*/) const override {
    return {gpu::pick_launch(device.info(), problem_, operands.inputs[0], operands.output)};
  }
  void reference(const Tile& tile, std::span<double> values) const override {
    auto to = values.begin();
    for (std::int64_t query = tile.row; query < tile.row + tile.rows; ++query) {
      const std::vector<std::uint32_t> words = output_words(query);
      for (std::int64_t byte = tile.column; byte < tile.column + tile.columns; ++byte) {
        *to++ = words[static_cast<std::size_t>(byte / 4)] >> (byte % 4 * 8) & 0xffU;
      }
    }
  }
  void framework(const Tile& tile, std::span<double> values) const override {
    reference(tile, values);
  }
  [[nodiscard]] std::vector<Mutant> mutants() const override {
    return {{"lower and upper bounds swapped", with_input(0, inputs_[0].rows_moved(1))},
            {"halves of the tiles swapped",
             with_input(0, inputs_[0].columns_swapped(0, problem_.tiles / 2, problem_.tiles / 2))},
            {"rank off by one", changed([](PickWorkload& copy) { ++copy.problem_.rank; }), false},
            {"one entry of the list skipped",
             changed([](PickWorkload& copy) { ++copy.problem_.skip; }), false}};
  }
  [[nodiscard]] TorchTask torch_task() const override {
    return {.why_not = "torch has no lists of different lengths"};
  }
  [[nodiscard]] DType operand_type() const override { return DType::kF32; }

 private:
  [[nodiscard]] std::vector<std::uint32_t> output_words(std::int64_t query) const {
    const std::vector<float> lowers = inputs_[0].row(2 * query);
    const std::vector<float> uppers = inputs_[0].row(2 * query + 1);
    std::vector<float> sorted = lowers;
    std::ranges::sort(sorted, std::ranges::greater());
    const auto rank = static_cast<std::size_t>(problem_.rank);
    const float threshold =
        rank <= sorted.size() ? sorted[rank - 1] : -std::numeric_limits<float>::infinity();
    std::vector<std::uint32_t> words(static_cast<std::size_t>(2 + problem_.capacity), 0xffffffffU);
    std::int64_t count = 0;
    for (std::size_t tile = 0; tile < uppers.size(); ++tile) {
      if (uppers[tile] >= threshold) {
        const std::int64_t index = count++ - problem_.skip;
        if (index >= 0 && index < problem_.capacity) {
          words[static_cast<std::size_t>(2 + index)] = static_cast<std::uint32_t>(tile);
        }
      }
    }
    words[0] = std::bit_cast<std::uint32_t>(threshold);
    words[1] = static_cast<std::uint32_t>(count);
    return words;
  }
};

Card bounds_card(std::string name, std::string operation, const std::vector<BoundsProblem>& checked,
                 const std::vector<BoundsProblem>& timed) {
  Card card{.name = std::move(name), .operation = std::move(operation), .first_arch = 80};
  const auto case_with = [](const BoundsProblem& problem) {
    std::string title =
        fmt::format("q{}_rows{}_bytes{}", problem.queries, problem.rows, problem.stride);
    if (problem.pairs > 0) {
      title += fmt::format("_tiles{}", problem.pairs);
    }
    return case_of<BoundsWorkload>(title, problem);
  };
  for (const BoundsProblem& problem : checked) {
    card.cases.push_back(case_with(problem).used(
        {.mutants = problem.queries > 1 && problem.rows < 300, .small = true}));
  }
  for (const BoundsProblem& problem : timed) {
    card.cases.push_back(case_with(problem).used({.bench = true}));
  }
  card.problem = [first = timed.front(), case_with](ProblemFields& fields) {
    BoundsProblem problem = first;
    fields.take("rows", problem.rows, {.max = std::int64_t{1} << 24});
    fields.take("bytes", problem.stride, {.min = 64, .max = 4096, .step = 64});
    fields.take("queries", problem.queries, {.max = 1024});
    if (problem.pairs > 0) {
      fields.take("tiles", problem.pairs);
    }
    require_size("codes", problem.rows, problem.stride);
    return case_with(problem);
  };
  card.tolerance = {.difference = 1e-9, .tile_difference = 1e-9};
  return card;
}

Card pick_card() {
  Card card{.name = "search_pick",
            .operation = "the tiles that may contain the best rows, by the tiles' bounds",
            .first_arch = 80};
  const auto pick_case = [](const gpu::PickProblem& problem) {
    return case_of<PickWorkload>(
        fmt::format("q{}_tiles{}_rank{}", problem.queries, problem.tiles, problem.rank), problem);
  };
  for (const gpu::PickProblem& problem :
       {gpu::PickProblem{.tiles = 1, .queries = 1, .rank = 1, .skip = 0, .capacity = 8},
        gpu::PickProblem{.tiles = 1500, .queries = 5, .rank = 9, .skip = 4, .capacity = 70},
        gpu::PickProblem{.tiles = 40, .queries = 3, .rank = 50, .skip = 0, .capacity = 64}}) {
    card.cases.push_back(
        pick_case(problem).used({.mutants = problem.tiles == 1500, .small = true}));
  }
  gpu::PickProblem timed{.tiles = 156250, .rank = 10, .skip = 0, .capacity = 2048};
  for (const std::int64_t queries : {1, 256}) {  // one of the two cases is checked
    timed.queries = queries;
    card.cases.push_back(pick_case(timed).used({.check = queries == 1, .bench = true}));
  }
  card.problem = [pick_case, timed](ProblemFields& fields) {
    gpu::PickProblem problem = timed;
    problem.queries = 1;
    fields.take("tiles", problem.tiles);
    fields.take("queries", problem.queries, {.max = 1024});
    fields.take("rank", problem.rank);
    require_size("best", 2 * problem.queries, problem.tiles);
    return pick_case(problem);
  };
  card.tolerance = {.difference = 0.0, .tile_difference = 0.0};
  card.gates = {{.case_name = card.cases.back().name,
                 .reason = "a CTA reads its query's bounds five times, with barriers in between",
                 .reach = 0.1,
                 .min_occupancy = 0,
                 .max_barrier = 0.6}};
  card.kernels = {{.kernel = "search_pick", .registers = 64, .shared_bytes = 0}};
  return card;
}

}  // namespace

std::vector<Card> search_cards() {
  std::vector<Card> cards;
  cards.push_back(bounds_card("search_scan",
                              "codes of rows x codes of queries: the best bounds of every 64 rows",
                              {{.rows = 1, .stride = 64, .queries = 1},
                               {.rows = 201, .stride = 192, .queries = 3},
                               {.rows = 1000, .stride = 768, .queries = 8},
                               {.rows = 130, .stride = 768, .queries = 13},
                               {.rows = 257, .stride = 320, .queries = 70},
                               {.rows = 400, .stride = 1152, .queries = 20}},
                              {{.rows = 2'000'000, .stride = 768, .queries = 1},
                               {.rows = 2'000'000, .stride = 768, .queries = 16},
                               {.rows = 2'000'000, .stride = 768, .queries = 256}}));
  cards.back().kernels = {
      {.kernel = "search_scan_8_fine", .registers = 128, .shared_bytes = 0},
      {.kernel = "search_scan_16", .registers = 128, .shared_bytes = 0},
      {.kernel = "search_scan_64", .shared_bytes = 0},
      {.kernel = "search_scan_*", .sass_has = {"IMMA", "LDG.E.128", "LDS.128"}}};
  cards.back().gates = {
      {.case_name = "q1_rows2000000_bytes768",
       .reason = "the codes are read once, and the output has 8 bytes per 64 rows",
       .reach = 0.85,
       .ctas_per_sm = 2,
       .ctas_reason = "the blocks of rows that its warps have in flight hide the "
                      "latency of device memory"}};
  cards.push_back(bounds_card("search_bounds",
                              "codes of rows x codes of queries: the bounds of the rows of tiles",
                              {{.rows = 1, .stride = 64, .queries = 1, .pairs = 1},
                               {.rows = 201, .stride = 192, .queries = 11, .pairs = 40},
                               {.rows = 1000, .stride = 768, .queries = 20, .pairs = 300}},
                              {{.rows = 200'000, .stride = 768, .queries = 256, .pairs = 16384}}));
  cards.back().kernels = {{.kernel = "search_bounds",
                           .registers = 128,
                           .shared_bytes = 0,
                           .sass_has = {"IMMA", "LDG.E.128"}}};
  cards.back().gates = {
      {.case_name = cards.back().cases.back().name,
       .reason =
           "a tile is read for one query, so that a product uses 2 of the 16 rows of a query panel",
       .reach = 0.1,
       .ctas_per_sm = 2,
       .ctas_reason = "with 128 registers per thread, two CTAs fit into an SM"}};
  cards.push_back(pick_card());
  return cards;
}

}  // namespace fovea::lab
