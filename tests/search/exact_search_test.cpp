// Searches by codes and by rows as they are: always what a brute force finds, and bounds that hold
// where they are tight.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/asked_isa.hpp"
#include "cpu/isa.hpp"
#include "fovea/search.hpp"
#include "search/code_scan.hpp"
#include "search/nearest.hpp"
#include "search/row_codes.hpp"
#include "support.hpp"

namespace fovea {
namespace {

using search::BoundTerms;
using search::CodedQueries;
using search::CodeScan;
using search::OwnedTerms;
using search::Queries;
using search::RowCoder;

std::vector<float> normals(std::mt19937& random, std::size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

// Rows that are hard for bounds or codes. Each seed has others.
struct Kind {
  const char* name;
  std::vector<float> (*make)(std::mt19937& random, std::int64_t rows, std::int64_t dimension);
};

std::vector<float> photos(std::mt19937& random, std::int64_t rows, std::int64_t dimension) {
  const auto width = static_cast<std::size_t>(dimension);
  const std::vector<float> common = normals(random, width, 2);
  std::vector<float> values = normals(random, static_cast<std::size_t>(rows) * width);
  for (std::size_t at = 0; at < values.size(); ++at) {
    values[at] += common[at % width] * (at % width < 3 ? 9.0F : 1.0F);
  }
  return values;
}

std::vector<float> nearly_equal(std::mt19937& random, std::int64_t rows, std::int64_t dimension) {
  const auto width = static_cast<std::size_t>(dimension);
  const std::vector<float> base = normals(random, width);
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    values.insert(values.end(), base.begin(), base.end());
    for (int change = 0; change < static_cast<int>(random() % 3); ++change) {
      float& value = values[values.size() - 1 - random() % width];
      value = std::nextafter(value, 0.0F);
    }
  }
  return values;
}

std::vector<float> one_large_number(std::mt19937& random, std::int64_t rows,
                                    std::int64_t dimension) {
  const auto width = static_cast<std::size_t>(dimension);
  std::vector<float> values = normals(random, static_cast<std::size_t>(rows) * width, 0.01F);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    values[row * width + random() % width] = row % 2 == 0 ? 300.0F : -70.0F;
  }
  return values;
}

std::vector<float> all_sizes(std::mt19937& random, std::int64_t rows, std::int64_t dimension) {
  const auto width = static_cast<std::size_t>(dimension);
  std::vector<float> values = normals(random, static_cast<std::size_t>(rows) * width);
  // From what f16 has as subnormal numbers to what overflows squares of f32, and zeros.
  constexpr std::array<float, 8> kSizes{1, 1e-7F, 1e-20F, 1e-38F, 1e-44F, 1e18F, 1e30F, 0};
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const float size = kSizes[random() % kSizes.size()];
    for (std::size_t at = row * width; at < (row + 1) * width; ++at) {
      values[at] *= size;
    }
  }
  return values;
}

std::vector<float> few_values(std::mt19937& random, std::int64_t rows, std::int64_t dimension) {
  std::vector<float> values(static_cast<std::size_t>(rows * dimension));
  std::generate(values.begin(), values.end(),
                [&] { return static_cast<float>(random() % 3) - 1.0F; });
  // Many rows of the same scores, of which those that come first are found.
  const auto width = static_cast<std::ptrdiff_t>(dimension);
  for (std::ptrdiff_t row = 8; row < rows; ++row) {
    std::copy_n(values.begin() + (row % 8) * width, width, values.begin() + row * width);
  }
  return values;
}

constexpr Kind kKinds[] = {{"photos", photos},
                           {"nearly equal", nearly_equal},
                           {"one large number", one_large_number},
                           {"all sizes", all_sizes},
                           {"few values", few_values}};

class ExactSearchTest : public test::SearchTest {
 protected:
  void SetUp() override {
    SearchTest::SetUp();
    cpu::limit_isa_from_environment();
    if (!cpu::has_asked_isa()) {
      GTEST_SKIP() << "this CPU lacks the instructions: it tests the set below them already";
    }
    random_.seed(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
  }

  // Queries like rows, opposite to rows, and unlike any.
  std::vector<float> queries_for(std::size_t count) {
    const auto width = static_cast<std::size_t>(dimension_);
    std::vector<float> queries;
    while (queries.size() < count * width) {
      std::vector<float> query = normals(random_, width);
      const float* const from = row(static_cast<std::int64_t>(random_() % rows_));
      const auto way = random_() % 4;
      const float sign = way == 1 ? -1.0F : 1.0F;
      const double length = std::sqrt(exact_square(from));
      // Rows of sizes that queries cannot have stay queries of their own.
      if (way < 3 && length > 1e-15 && length < 1e15) {
        for (std::size_t at = 0; at < width; ++at) {
          const double other = way == 2 ? 0.3 * static_cast<double>(query[at]) : 0.0;
          query[at] = static_cast<float>(sign * static_cast<double>(from[at]) / length + other);
        }
      }
      queries.insert(queries.end(), query.begin(), query.end());
    }
    return queries;
  }

  [[nodiscard]] double exact_square(const float* vector) const {
    double sum = 0;
    for (std::int64_t at = 0; at < dimension_; ++at) {
      sum += static_cast<double>(vector[at]) * static_cast<double>(vector[at]);
    }
    return sum;
  }

  // The brute force of support.hpp, but rows whose exact scores differ by no more than what two
  // orders of adding in binary64 may change can come in either order.
  void check(const Collection& collection, const std::vector<float>& queries, int k,
             const std::vector<std::int64_t>& left_out = {}) {
    const auto results = collection.nearest(queries, k, left_out);
    const auto width = static_cast<std::size_t>(dimension_);
    ASSERT_EQ(results.size(), queries.size() / width);
    for (std::size_t query = 0; query < results.size(); ++query) {
      std::vector<double> scores(static_cast<std::size_t>(rows_));
      std::vector<double> sorted;
      for (std::int64_t at = 0; at < rows_; ++at) {
        scores[static_cast<std::size_t>(at)] =
            exact(row(at), queries.data() + query * width, dimension_);
        if (left_out.empty() || left_out[query] != at) {
          sorted.push_back(scores[static_cast<std::size_t>(at)]);
        }
      }
      std::ranges::sort(sorted, std::greater<>());
      sorted.resize(std::min(sorted.size(), static_cast<std::size_t>(k)));
      ASSERT_EQ(results[query].size(), sorted.size());
      constexpr double kRounding = 1e-14;
      for (std::size_t rank = 0; rank < sorted.size(); ++rank) {
        const Match& match = results[query][rank];
        ASSERT_NEAR(match.score, scores[static_cast<std::size_t>(match.row)], kRounding);
        ASSERT_NEAR(match.score, sorted[rank], kRounding) << "query " << query << " rank " << rank;
        if (rank > 0) {
          const Match& before = results[query][rank - 1];
          ASSERT_TRUE(before.score > match.score ||
                      (before.score == match.score && before.row < match.row));
        }
      }
    }
  }
};

TEST_F(ExactSearchTest, EveryWayFindsWhatABruteForceFinds) {
  for (const Kind& kind : kKinds) {
    for (const std::int64_t dimension : {64, 100, 768}) {
      TearDown();
      SearchTest::SetUp();
      values_.clear();
      rows_ = 0;
      shards_ = 0;
      add_shard(kind.make(random_, 331, dimension), dimension, DType::kF32);
      std::vector<float> halves = kind.make(random_, 150, dimension);
      for (float& value : halves) {  // f16 has no larger ones
        value = std::clamp(value, -60000.0F, 60000.0F);
      }
      add_shard(halves, dimension, DType::kF16);
      for (const RowsInMemory in_memory : {RowsInMemory::kNever, RowsInMemory::kAlways}) {
        SCOPED_TRACE(fmt::format("{}, dimension {}, rows in memory: {}", kind.name, dimension,
                                 static_cast<int>(in_memory)));
        const Collection collection(
            std::vector{folder_},
            {.threads = 3, .root = {}, .on_progress = {}, .rows_in_memory = in_memory});
        for (const std::size_t queries : {1, 3, 7, 40}) {
          check(collection, queries_for(queries), 9);
        }
        check(collection, queries_for(1), 1);
        check(collection, queries_for(2), 200);
        check(collection, queries_for(2), 1000);
        std::vector<float> own(row(5), row(5) + dimension_);
        if (exact_square(own.data()) > 1e-30 && exact_square(own.data()) < 1e30) {
          check(collection, own, 4, {5});
        }
      }
    }
  }
}

TEST_F(ExactSearchTest, EqualRowsComeInTheirOrderByEveryWay) {
  const std::vector<float> one = normals(random_, 96);
  std::vector<float> rows;
  for (int copy = 0; copy < 3000; ++copy) {
    rows.insert(rows.end(), one.begin(), one.end());
  }
  add_shard(rows, 96, DType::kF16);
  add_shard(rows, 96, DType::kF16);
  const Collection collection(folder_, 4);
  std::vector<float> query(row(0), row(0) + 96);
  for (int time = 0; time < 3; ++time) {  // rows as they are, a copy being made, the copy
    EXPECT_EQ(collection.nearest(query, 3)[0], (std::vector<Match>{{0, 1}, {1, 1}, {2, 1}}));
    EXPECT_EQ(collection.nearest(query, 3, std::vector<std::int64_t>{1})[0],
              (std::vector<Match>{{0, 1}, {2, 1}, {3, 1}}));
  }
}

TEST_F(ExactSearchTest, RowsThatAreNoneAreNamedByEveryWay) {
  std::vector<float> rows = normals(random_, 400 * 64);
  rows[350 * 64 + 9] = std::numeric_limits<float>::quiet_NaN();
  add_shard(rows, 64, DType::kF16);
  const Collection never(
      std::vector{folder_},
      {.threads = 2, .root = {}, .on_progress = {}, .rows_in_memory = RowsInMemory::kNever});
  const Collection always(
      std::vector{folder_},
      {.threads = 2, .root = {}, .on_progress = {}, .rows_in_memory = RowsInMemory::kAlways});
  for (const Collection* collection : {&never, &always}) {
    for (const std::size_t queries : {1, 30}) {
      for (int time = 0; time < 2; ++time) {
        const std::string error =
            thrown_by([&] { (void)collection->nearest(normals(random_, queries * 64), 2); });
        EXPECT_SAYS(error, "embeddings-00000.npy, row 350");
        EXPECT_SAYS(error, "NaN");
      }
    }
  }
}

TEST_F(ExactSearchTest, FilesThatChangeAreRefusedThoughTheirRowsAreInMemory) {
  add_shard(normals(random_, 500 * 64), 64, DType::kF16);
  add_shard(normals(random_, 500 * 64), 64, DType::kF16);
  const Collection collection(
      std::vector{folder_},
      {.threads = 2, .root = {}, .on_progress = {}, .rows_in_memory = RowsInMemory::kAlways});
  const std::vector<float> query = normals(random_, 64);
  const auto before = collection.nearest(query, 5);
  EXPECT_EQ(collection.nearest(query, 5), before);
  const std::filesystem::path path = folder_ / "embeddings-00001.npy";
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_SAYS(thrown_by([&] { (void)collection.nearest(query, 5); }), "changed while it was read");
}

TEST_F(ExactSearchTest, TheCopyIsMadeWhenItIsAskedFor) {
  add_shard(normals(random_, 300 * 64), 64, DType::kF16);
  const search::Shards shards({folder_});
  ThreadPool pool(2);
  const SearchProgress silent;
  const bool can = cpu::has_int8();
  const std::vector<float> query = normals(random_, 64);
  search::Searcher never(shards, pool, RowsInMemory::kNever, silent);
  search::Searcher by_itself(shards, pool, RowsInMemory::kAuto, silent);
  search::Searcher always(shards, pool, RowsInMemory::kAlways, silent);
  for (int time = 1; time <= 3; ++time) {
    for (search::Searcher* searcher : {&never, &by_itself, &always}) {
      EXPECT_EQ(searcher->nearest(query, 4, {}), never.nearest(query, 4, {}));
    }
    EXPECT_FALSE(never.has_copy());
    EXPECT_EQ(by_itself.has_copy(), can && time > 1);
    EXPECT_EQ(always.has_copy(), can);
  }
}

// Rows and queries whose codes leave out as much as the bound allows.
class BoundTest : public ExactSearchTest {
 protected:
  static constexpr std::int64_t kDimension = 256;

  // All pairs, as bounds of a search that rules nothing out.
  struct Pair {
    double exact;
    double upper;
    double error;  // what the bound allows
  };
  [[nodiscard]] std::vector<Pair> pairs(const RowCoder& coder, const std::vector<float>& rows,
                                        const std::vector<float>& vectors) const {
    const std::int64_t count = static_cast<std::int64_t>(rows.size()) / kDimension;
    std::vector<std::uint8_t> codes(
        static_cast<std::size_t>((count + CodeScan::kPaddingRows) * coder.stride()));
    OwnedTerms terms(static_cast<std::size_t>(count + CodeScan::kPaddingRows));
    coder.encode({reinterpret_cast<const std::byte*>(rows.data()), DType::kF32, kDimension}, count,
                 codes.data(), terms, 0);
    const Queries queries = search::check_queries(vectors, kDimension, {});
    const CodedQueries coded(coder, queries);
    std::vector<Pair> all(static_cast<std::size_t>(count) * queries.size(), Pair{0, -9, 0});
    CodeScan scan(coded);
    for (std::int64_t first = 0; first < count; first += CodeScan::kMaxRows) {
      const BoundTerms from = terms.view().subspan(first);
      scan.scan(
          codes.data() + first * coder.stride(), from, std::min(CodeScan::kMaxRows, count - first),
          [](std::size_t) { return -INFINITY; },
          [&](std::size_t query, std::int64_t row, const search::Bounds& bounds) {
            const std::size_t at = static_cast<std::size_t>(first + row);
            all[at * queries.size() + query] = {
                exact(rows.data() + at * kDimension, vectors.data() + query * kDimension,
                      kDimension),
                static_cast<double>(bounds.upper),
                static_cast<double>(from.error[row]) +
                    static_cast<double>(from.length[row] *
                                        coded.codes().terms.view().length[query])};
          });
    }
    return all;
  }
};

TEST_F(BoundTest, UpperBoundsHoldAndAreNoLooserThanTheySay) {
  if (!cpu::has_int8()) {
    GTEST_SKIP() << "this instruction set has no products of codes";
  }
  for (const Kind& kind : kKinds) {
    const std::vector<float> rows = kind.make(random_, 200, kDimension);
    std::vector<float> direction = normals(random_, kDimension, 1.0F / 16);
    if (std::string(kind.name) == "photos") {
      std::ranges::fill(direction, 0.0F);
      direction[0] = 1;
    }
    double square = 0;
    for (const float value : direction) {
      square += static_cast<double>(value) * static_cast<double>(value);
    }
    for (float& value : direction) {
      value = static_cast<float>(static_cast<double>(value) / std::sqrt(square) * (1 - 1e-7));
    }
    const RowCoder coder(direction);
    for (const std::size_t count : {1, 3, 4, 37}) {
      SCOPED_TRACE(fmt::format("{}, {} queries", kind.name, count));
      for (const Pair& pair : pairs(coder, rows, normals(random_, count * kDimension))) {
        ASSERT_FALSE(pair.upper < pair.exact) << pair.upper << " < " << pair.exact;
        if (std::isfinite(pair.upper)) {
          ASSERT_LE(pair.upper, pair.exact + 2 * pair.error + 1e-6);
        }
      }
    }
  }
}

// A query in the direction of what a row's codes leave out.
TEST_F(BoundTest, TheRestOfARowIsNeededWhole) {
  if (!cpu::has_int8()) {
    GTEST_SKIP() << "this instruction set has no products of codes";
  }
  const RowCoder coder{std::vector<float>(kDimension)};
  for (int time = 0; time < 20; ++time) {
    std::vector<float> row = normals(random_, kDimension);
    float peak = 0;
    for (const float value : row) {
      peak = std::max(peak, std::abs(value));
    }
    std::vector<float> rest(row);
    for (float& value : rest) {
      value -= peak / 127 * std::nearbyint(value * 127 / peak);
    }
    for (const Pair& pair : pairs(coder, row, rest)) {
      EXPECT_GE(pair.upper, pair.exact);
      EXPECT_LT(pair.upper - 0.5 * pair.error, pair.exact);  // half of it would be too little
    }
  }
}

// A row in the direction of what a query's codes leave out, which are coarse in tiles.
TEST_F(BoundTest, TheRestOfAQueryIsNeededWhole) {
  if (!cpu::has_int8()) {
    GTEST_SKIP() << "this instruction set has no products of codes";
  }
  const RowCoder coder{std::vector<float>(kDimension)};
  std::vector<float> queries = normals(random_, 20 * kDimension);
  std::vector<float> rows(queries);
  for (std::size_t first = 0; first < queries.size(); first += kDimension) {
    float peak = 0;
    float most = 0;
    for (std::size_t at = first; at < first + kDimension; ++at) {
      peak = std::max(peak, std::abs(queries[at]));
    }
    for (std::size_t at = first; at < first + kDimension; ++at) {
      rows[at] = queries[at] - peak / 127 * std::nearbyint(queries[at] * 127 / peak);
      most = std::max(most, std::abs(rows[at]));
    }
    for (std::size_t at = first; at < first + kDimension; ++at) {
      rows[at] = std::nearbyint(rows[at] / most * 127);  // its codes leave nothing out
    }
  }
  const std::vector<Pair> all = pairs(coder, rows, queries);
  for (std::size_t query = 0; query < 20; ++query) {
    const Pair& pair = all[query * 20 + query];
    EXPECT_GE(pair.upper, pair.exact);
    EXPECT_LT(pair.upper - 0.5 * pair.error, pair.exact);
  }
}

}  // namespace
}  // namespace fovea
