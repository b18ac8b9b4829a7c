// The search against a brute force in double precision, on outputs of `fovea embed` made by hand.
#include "fovea/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "search/shards.hpp"

namespace fovea {
namespace {
namespace fs = std::filesystem;

class SearchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fovea-search-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Appends a shard with the rows `values` [n, dimension]; names are "photo-<row>".
  void add_shard(const std::vector<float>& values, std::int64_t dimension,
                 DType dtype = DType::kF32) {
    const auto rows = static_cast<std::int64_t>(values.size()) / dimension;
    io::AtomicFile file(folder_ / fmt::format("embeddings-{:05}.npy", shards_));
    file.write(io::npy_header(dtype, {rows, dimension}));
    for (const float value : values) {
      const Float16 half = to_float16(value);
      file.write(dtype == DType::kF16 ? std::as_bytes(std::span(&half, 1))
                                      : std::as_bytes(std::span(&value, 1)));
      values_.push_back(dtype == DType::kF16 ? to_float(half) : value);
    }
    file.commit();
    std::string index;
    for (std::int64_t row = 0; row < rows; ++row) {
      index +=
          fmt::format("{{\"row\": {}, \"source\": \"photo-{}\", \"width\": {}, \"height\": 1}}\n",
                      row, rows_, width_of(rows_));
      ++rows_;
    }
    write(fmt::format("index-{:05}.jsonl", shards_), index);
    ++shards_;
    dimension_ = dimension;
  }

  // Neither all equal nor in the order of the rows.
  [[nodiscard]] static std::int64_t width_of(std::int64_t row) { return 1 + row * 7 % 5; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  [[nodiscard]] std::vector<float> random(std::int64_t rows, std::int64_t dimension,
                                          float scale = 1) {
    std::normal_distribution<float> normal(0.1F, scale);
    std::vector<float> values(static_cast<std::size_t>(rows * dimension));
    std::generate(values.begin(), values.end(), [&] { return normal(random_); });
    return values;
  }

  // The cosine in long double: the judge.
  [[nodiscard]] static double exact(const float* a, const float* b, std::int64_t dimension) {
    long double ab = 0;
    long double aa = 0;
    long double bb = 0;
    for (std::int64_t at = 0; at < dimension; ++at) {
      ab += static_cast<long double>(a[at]) * b[at];
      aa += static_cast<long double>(a[at]) * a[at];
      bb += static_cast<long double>(b[at]) * b[at];
    }
    return aa == 0 || bb == 0 ? 0 : static_cast<double>(ab / std::sqrt(aa * bb));
  }

  [[nodiscard]] const float* row(std::int64_t index) const {
    return values_.data() + index * dimension_;
  }

  // Compares every result with the brute force.
  void check_nearest(const Collection& collection, const std::vector<float>& queries, int k,
                     const std::vector<std::int64_t>& left_out = {}) const {
    const auto results = collection.nearest(queries, k, left_out);
    ASSERT_EQ(results.size(), queries.size() / static_cast<std::size_t>(dimension_));
    for (std::size_t query = 0; query < results.size(); ++query) {
      std::vector<Match> all;
      for (std::int64_t index = 0; index < rows_; ++index) {
        if (left_out.empty() || left_out[query] != index) {
          const float* vector = queries.data() + query * static_cast<std::size_t>(dimension_);
          all.push_back({index, exact(row(index), vector, dimension_)});
        }
      }
      std::sort(all.begin(), all.end(), [](const Match& a, const Match& b) {
        return a.score > b.score || (a.score == b.score && a.row < b.row);
      });
      all.resize(std::min(all.size(), static_cast<std::size_t>(k)));
      ASSERT_EQ(results[query].size(), all.size());
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        EXPECT_EQ(results[query][rank].row, all[rank].row) << "query " << query << " rank " << rank;
        EXPECT_NEAR(results[query][rank].score, all[rank].score, 1e-14);
      }
    }
  }

  [[nodiscard]] static std::string thrown_by(const std::function<void()>& use) {
    try {
      use();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  [[nodiscard]] std::string error_of(const std::function<void(const Collection&)>& use = {}) const {
    return thrown_by([&] {
      const Collection collection(folder_, 2);
      if (use) {
        use(collection);
      }
    });
  }

  fs::path folder_;
  std::mt19937 random_{1};
  std::vector<float> values_;
  std::int64_t rows_ = 0;
  std::int64_t dimension_ = 0;
  int shards_ = 0;
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(SearchTest, EqualsBruteForceOverShardsTypesAndShapes) {
  // Odd dimensions have tails in every vector length; row counts leave tiles incomplete.
  for (const std::int64_t dimension : {1, 3, 16, 77, 200}) {
    SCOPED_TRACE(dimension);
    TearDown();
    SetUp();
    values_.clear();
    rows_ = 0;
    shards_ = 0;
    add_shard(random(1500, dimension), dimension);
    add_shard(random(1, dimension), dimension, DType::kF16);
    add_shard({}, dimension);
    add_shard(random(331, dimension, 30), dimension, DType::kF16);
    add_shard(random(70, dimension, 1e-3F), dimension);
    const Collection collection(folder_, 3);
    ASSERT_EQ(collection.rows(), rows_);
    check_nearest(collection, random(1, dimension), 10);
    check_nearest(collection, random(101, dimension), 7);
  }
}

TEST_F(SearchTest, NearTiesAreInOrderOfTheirExactScores) {
  // Rows that differ by less than what binary32 sums can tell apart.
  constexpr std::int64_t kDimension = 512;
  const std::vector<float> base = random(1, kDimension);
  std::vector<float> rows;
  for (int index = 0; index < 3000; ++index) {
    std::vector<float> row = base;
    for (int change = 0; change < 3; ++change) {
      float& value = row[random_() % kDimension];
      value = std::nextafter(value, static_cast<float>(random_() % 2));
    }
    rows.insert(rows.end(), row.begin(), row.end());
  }
  add_shard(rows, kDimension);
  const Collection collection(folder_, 4);
  // At an angle to them, where such differences move the cosine by 1e-9 or so; and from the other
  // side, where binary32 errs the other way.
  for (int repeat = 0; repeat < 4; ++repeat) {
    std::vector<float> query = random(1, kDimension);
    check_nearest(collection, query, 50);
    std::transform(query.begin(), query.end(), query.begin(), std::negate<>());
    check_nearest(collection, query, 50);
  }
}

TEST_F(SearchTest, TiesAreBrokenByRowAndOwnRowsLeftOut) {
  const std::vector<float> one = random(1, 24);
  std::vector<float> rows;
  for (int copy = 0; copy < 2500; ++copy) {
    rows.insert(rows.end(), one.begin(), one.end());
  }
  add_shard(rows, 24);
  add_shard(rows, 24);
  const Collection collection(folder_, 4);
  const auto found = collection.nearest(one, 4)[0];
  EXPECT_EQ(found, (std::vector<Match>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  const std::vector<std::int64_t> left_out{1};
  EXPECT_EQ(collection.nearest(one, 3, left_out)[0], (std::vector<Match>{{0, 1}, {2, 1}, {3, 1}}));
}

TEST_F(SearchTest, MoreNeighboursThanRows) {
  add_shard(random(3, 8), 8);
  const Collection collection(folder_);
  check_nearest(collection, random(2, 8), 10);
  check_nearest(collection, random(2, 8), 10, {0, 2});
}

TEST_F(SearchTest, ZerosAndExtremeNumbers) {
  std::vector<float> rows = random(6, 4);
  std::fill_n(rows.begin(), 4, 0.0F);  // found first by all that it does not oppose
  std::transform(rows.begin() + 4, rows.begin() + 8, rows.begin() + 4,
                 [](float value) { return value * 1e30F; });
  std::transform(rows.begin() + 8, rows.begin() + 12, rows.begin() + 8,
                 [](float value) { return value * 1e-30F; });
  add_shard(rows, 4);
  const Collection collection(folder_, 2);
  check_nearest(collection, random(5, 4), 6);
  check_nearest(collection, {1e30F, -2e30F, 3e30F, 1e29F}, 6);
  // Also where they must get past rows that are already found.
  for (const std::int64_t index : {1, 2}) {
    check_nearest(collection, {row(index), row(index) + 4}, 1);
    std::vector<float> opposite(row(index), row(index) + 4);
    std::transform(opposite.begin(), opposite.end(), opposite.begin(), std::negate<>());
    check_nearest(collection, opposite, 5);
  }
}

TEST_F(SearchTest, NumbersThatAreNone) {
  std::vector<float> rows = random(5, 4);
  rows[9] = std::numeric_limits<float>::quiet_NaN();
  add_shard(rows, 4);
  const Collection collection(folder_, 2);
  const std::string nearest =
      error_of([&](const Collection& c) { (void)c.nearest(random(1, 4), 2); });
  EXPECT_SAYS(nearest, "embeddings-00000.npy, row 2");
  EXPECT_SAYS(nearest, "NaN");
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.duplicates({.threshold = 0.5}); }),
              "row 2");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THROW((void)collection.nearest(std::vector<float>{1, infinity, 0, 0}, 1), Error);
  EXPECT_THROW((void)collection.nearest(std::vector<float>(4), 1), Error);
  EXPECT_THROW((void)collection.nearest(std::vector<float>(5), 1), Error);
}

// Rows at these angles on a circle; their lengths differ.
std::vector<float> on_a_circle(const std::vector<double>& degrees) {
  std::vector<float> rows;
  for (std::size_t index = 0; index < degrees.size(); ++index) {
    const double radians = degrees[index] * 3.14159265358979 / 180;
    const double length = 1.0 + static_cast<double>(index);
    rows.push_back(static_cast<float>(length * std::cos(radians)));
    rows.push_back(static_cast<float>(length * std::sin(radians)));
  }
  return rows;
}

std::vector<std::int64_t> rows_of(const DuplicateGroup& group) {
  std::vector<std::int64_t> list{group.kept.row};
  for (const Duplicate& member : group.members) {
    list.push_back(member.photo.row);
  }
  return list;
}

TEST_F(SearchTest, DuplicatesAreLikeTheirKeptPhotoNotLinkedByChains) {
  // 0, 5, 10, 15 and 20 degrees: neighbours are within 6 degrees, the others are not.
  add_shard(on_a_circle({0, 5, 10, 15, 20, 90, 93, 200}), 2);
  std::string index;
  for (const int width : {1, 2, 3, 2, 1, 4, 5, 1}) {
    index += fmt::format("{{\"source\": \"x\", \"width\": {}, \"height\": 1}}\n", width);
  }
  for (std::size_t at = index.find("\"x\""), row = 0; at != std::string::npos;
       at = index.find("\"x\"")) {
    index.replace(at, 3, fmt::format("\"{}\"", row++));
  }
  write("index-00000.jsonl", index);
  const Collection collection(folder_, 2);
  const double threshold = std::cos(6 * 3.14159265358979 / 180);
  const auto groups = collection.duplicates({.threshold = threshold}).groups;
  ASSERT_EQ(groups.size(), 2U);
  // The largest keeps its neighbours. 0 and 20 degrees are alone: what they are like goes.
  EXPECT_EQ(groups[0].kept.row, 2);
  EXPECT_EQ(groups[0].members[0].photo.row + groups[0].members[1].photo.row, 1 + 3);
  EXPECT_NEAR(groups[0].members[0].score, std::cos(5 * 3.14159265358979 / 180), 1e-6);
  EXPECT_NEAR(groups[0].lowest_score, std::cos(10 * 3.14159265358979 / 180), 1e-6);
  EXPECT_EQ(rows_of(groups[1]), (std::vector<std::int64_t>{6, 5}));
  EXPECT_EQ(groups[1].members[0].likeness, Likeness::kSimilar);
}

TEST_F(SearchTest, DuplicatesEqualBruteForce) {
  for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(seed);
    TearDown();
    SetUp();
    random_.seed(seed);
    values_.clear();
    rows_ = 0;
    shards_ = 0;
    constexpr std::int64_t kDimension = 5;  // few dimensions: many pairs near any threshold
    add_shard(random(700, kDimension), kDimension);
    add_shard(random(90, kDimension), kDimension, DType::kF16);
    const std::vector<float> copies(values_.begin(), values_.begin() + 5 * kDimension);
    add_shard(copies, kDimension);
    add_shard(std::vector<float>(2 * kDimension), kDimension);  // zeros are like nothing
    const Collection collection(folder_, 3);
    for (const double threshold : {0.3, 0.9, 0.98, 0.9999, 1.0}) {
      SCOPED_TRACE(threshold);
      // No photo has a file here, so more pixels and then the row decide.
      std::vector<std::int64_t> order(static_cast<std::size_t>(rows_));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::ranges::greater(), width_of);
      std::vector<std::int64_t> kept;
      std::map<std::int64_t, std::map<std::int64_t, double>> groups;
      for (const std::int64_t row : order) {
        Match best{-1, 0};
        for (const std::int64_t other : kept) {
          const double score = exact(this->row(row), this->row(other), kDimension);
          if (score >= threshold && (best.row < 0 || score > best.score)) {
            best = {other, score};
          }
        }
        if (best.row < 0) {
          kept.push_back(row);
        } else {
          groups[best.row][row] = best.score;
        }
      }
      const auto found = collection.duplicates({.threshold = threshold}).groups;
      ASSERT_EQ(found.size(), groups.size());
      EXPECT_GE(found.size(), 5U) << "the copies at least";
      auto expected = groups.begin();
      for (const DuplicateGroup& group : found) {
        ASSERT_EQ(group.kept.row, expected->first);
        ASSERT_EQ(group.members.size(), expected->second.size());
        for (std::size_t at = 0; at < group.members.size(); ++at) {
          const Duplicate& member = group.members[at];
          ASSERT_TRUE(expected->second.contains(member.photo.row));
          EXPECT_NEAR(member.score, expected->second[member.photo.row], 1e-14);
          EXPECT_TRUE(at == 0 || member.score <= group.members[at - 1].score);
        }
        double lowest = 1;
        const std::vector<std::int64_t> rows = rows_of(group);
        for (const std::int64_t a : rows) {
          for (const std::int64_t b : rows) {
            lowest = std::min(lowest, exact(row(a), row(b), kDimension));
          }
        }
        EXPECT_NEAR(group.lowest_score, lowest, 1e-14);
        ++expected;
      }
    }
  }
  const Collection collection(folder_);
  EXPECT_THROW((void)collection.duplicates({.threshold = 0}), Error);
  EXPECT_THROW((void)collection.duplicates({.threshold = 1.01}), Error);
  EXPECT_THROW((void)collection.duplicates({.threshold = std::nan("")}), Error);
}

TEST_F(SearchTest, ManyRowsNeedSeveralRounds) {
  // 1,500 pairs, far from each other: more kept photos than are compared with all others at once.
  constexpr std::int64_t kPairs = 1500;
  constexpr std::int64_t kDimension = 24;
  std::vector<float> rows = random(kPairs, kDimension);
  std::vector<float> near = rows;
  for (float& value : near) {
    value *= 1 + 1e-3F * static_cast<float>(random_() % 3);
  }
  rows.insert(rows.end(), near.begin(), near.end());
  add_shard(rows, kDimension);
  std::vector<std::int64_t> done;
  CollectionOptions options{.threads = 3, .root = {}, .on_progress = {}};
  options.on_progress = [&](std::int64_t now, std::int64_t total) {
    EXPECT_LE(now, total);
    EXPECT_TRUE(done.empty() || now > done.back());
    done.push_back(now);
    if (now == total) {
      done.push_back(-1);
    }
  };
  const Collection collection({folder_}, options);
  const auto groups = collection.duplicates({.threshold = 0.9999}).groups;
  ASSERT_EQ(groups.size(), kPairs);
  for (const DuplicateGroup& group : groups) {
    ASSERT_EQ(group.members.size(), 1U);
    EXPECT_EQ(std::abs(group.members[0].photo.row - group.kept.row), kPairs);
    EXPECT_GE(group.members[0].photo.width == group.kept.width
                  ? group.members[0].photo.row - group.kept.row
                  : group.kept.width - group.members[0].photo.width,
              0);
    EXPECT_EQ(group.lowest_score, group.members[0].score);
  }
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), -1);
  done.clear();
  (void)collection.nearest(random(1, kDimension), 3);
  EXPECT_EQ(done.back(), -1);
}

TEST_F(SearchTest, SeveralOutputsAreSearchedAsOne) {
  const auto at = [&](const char* name) { return folder_ / name; };
  const fs::path parent = folder_;
  std::vector<float> all;
  for (const char* const name : {"a", "b"}) {
    fs::create_directory(parent / name);
    folder_ = parent / name;
    shards_ = 0;
    rows_ = 0;
    add_shard(random(40, 6), 6);
    add_shard(random(3, 6), 6);
  }
  rows_ = 86;
  folder_ = parent;
  const Collection collection({at("a"), at("b")}, {.threads = 2, .root = {}, .on_progress = {}});
  EXPECT_EQ(collection.rows(), 86);
  check_nearest(collection, random(3, 6), 10);
  EXPECT_EQ(collection.photo(42).output, 0U);
  EXPECT_EQ(collection.photo(43).output, 1U);
  EXPECT_EQ(collection.source(43), "photo-0");
  EXPECT_EQ(collection.embedding(85), std::vector<float>(row(85), row(85) + 6));
  const auto refused = [&](const std::vector<fs::path>& paths) {
    return thrown_by([&] { const Collection opened(paths); });
  };
  EXPECT_SAYS(refused({at("a"), parent / "b/../a"}), "given twice");
  EXPECT_SAYS(refused({}), "no output");
  const char* const manifest = R"({{"finished": true, "model": {{"name": "{}", "sha256": "{}"}}}})";
  write("a/manifest.json", fmt::format(fmt::runtime(manifest), "one", "11"));
  EXPECT_EQ(refused({at("a"), at("b")}), "no error");  // nothing is known of b
  write("b/manifest.json", fmt::format(fmt::runtime(manifest), "two", "11"));
  EXPECT_EQ(refused({at("a"), at("b")}), "no error");  // one model under two names
  write("b/manifest.json", fmt::format(fmt::runtime(manifest), "two", "22"));
  EXPECT_SAYS(refused({at("a"), at("b")}), "embeddings of different models cannot be compared");
  fs::create_directory(at("c"));
  folder_ = at("c");
  shards_ = 0;
  add_shard(random(3, 5), 5);
  folder_ = parent;
  EXPECT_SAYS(refused({at("a"), at("c")}), "c/embeddings-00000.npy: its embeddings have 5 numbers");
}

TEST_F(SearchTest, UnfinishedOutputsSayHowFarTheyAre) {
  const char* const manifest =
      R"({{"finished": {}, "model": {{"name": "m"}}, "counts": {{"rows": 32}}}})";
  write("embeddings-00000.npy.partial", "");
  write("manifest.json", fmt::format(fmt::runtime(manifest), false));
  EXPECT_SAYS(error_of(), "not finished: 32 rows so far");
  EXPECT_SAYS(error_of(), "run the embed command again");
  write("manifest.json", fmt::format(fmt::runtime(manifest), true));
  EXPECT_SAYS(error_of(), "holds no embeddings-*.npy");
  write("manifest.json", "{");
  EXPECT_SAYS(error_of(), "holds no embeddings-*.npy");
}

TEST_F(SearchTest, NamesOfRows) {
  add_shard(random(3, 4), 4);
  add_shard(random(2, 4), 4);
  const Collection collection(folder_);
  EXPECT_EQ(collection.source(0), "photo-0");
  EXPECT_EQ(collection.source(4), "photo-4");
  EXPECT_EQ(collection.find("photo-3"), 3);
  EXPECT_EQ(collection.find("photo-"), std::nullopt);
  EXPECT_EQ(collection.find("width"), std::nullopt);
  EXPECT_THROW((void)collection.source(5), Error);
  EXPECT_EQ(collection.embedding(4), std::vector<float>(row(4), row(4) + 4));
}

TEST_F(SearchTest, OddNamesAreFoundAsBytesAndAsText) {
  add_shard(random(3, 4), 4);
  const std::string odd = "a\\b\n\xff\".jpg";
  write("index-00000.jsonl",
        "{\"row\": 0, \"source\": \"./x/../caf\\u00e9.jpg\"}\n{\"row\": 1, \"source\": " +
            io::json_quote(io::escape(odd)) + "}\n{\"source\": \"last, no newline\"}");
  const Collection collection(folder_);
  EXPECT_EQ(collection.find(odd), 1);
  EXPECT_EQ(collection.find(io::escape(odd)), 1);
  EXPECT_EQ(collection.source(1), io::escape(odd));
  EXPECT_EQ(collection.find("./x/../caf\xc3\xa9.jpg"), 0);  // spelled \u00e9 in the file
  EXPECT_EQ(collection.find("last, no newline"), 2);
}

TEST_F(SearchTest, ManifestNamesTheModel) {
  add_shard(random(1, 4), 4);
  EXPECT_EQ(Collection(folder_).model(), "");
  EXPECT_TRUE(Collection(folder_).is_finished());
  write("manifest.json", R"({"finished": false, "model": {"name": "a\\\\b", "sha256": ""}})");
  EXPECT_EQ(Collection(folder_).model(), "a\\b");
  EXPECT_FALSE(Collection(folder_).is_finished());
  write("manifest.json", "[]");
  EXPECT_SAYS(error_of(), "not the manifest");
}

TEST_F(SearchTest, SingleFileOutputs) {
  add_shard(random(2, 4), 4);
  fs::rename(folder_ / "embeddings-00000.npy", folder_ / "x.npy");
  EXPECT_THROW(Collection(folder_ / "x.npy"), Error);
  fs::rename(folder_ / "index-00000.jsonl", folder_ / "x.index.jsonl");
  EXPECT_EQ(Collection(folder_ / "x.npy").rows(), 2);
}

TEST_F(SearchTest, MalformedFolders) {
  EXPECT_SAYS(error_of(), "no embeddings-*.npy");
  write("embeddings-00000.jsonl", "");
  EXPECT_SAYS(error_of(), "--format npy");
  add_shard(random(3, 4), 4);
  EXPECT_EQ(error_of(), "no error");
  add_shard(random(3, 5), 5);
  EXPECT_SAYS(error_of(), "embeddings-00001.npy: its embeddings have 5 numbers");
  fs::remove(folder_ / "embeddings-00001.npy");
  write("index-00000.jsonl", "{}\n{}\n");
  EXPECT_SAYS(error_of(), "has 3 rows, but its index index-00000.jsonl has 2 lines");
  write("index-00000.jsonl", "{}\n[[[[[[[[[[\n{\"row\": 1, \"source\": \"a\"}\n");
  for (const std::int64_t index : {0, 1}) {
    EXPECT_SAYS(error_of([&](const Collection& c) { (void)c.source(index); }),
                fmt::format("index-00000.jsonl, line {}", index + 1));
  }
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.source(2); }), "is 1, expected 2");
  fs::remove(folder_ / "index-00000.jsonl");
  EXPECT_SAYS(error_of(), "index index-00000.jsonl is missing");
  write("embeddings-00000.npy", io::npy_header(DType::kU8, {2, 2}) + "abcd");
  write("index-00000.jsonl", "{}\n{}\n");
  EXPECT_SAYS(error_of(), "u8 [2, 2]; expected f32 or f16");
  write("embeddings-00000.npy", "junk");
  EXPECT_SAYS(error_of(), "embeddings-00000.npy");
}

// Maps of such files would be signals that end the process.
TEST_F(SearchTest, ArraysThatAreCutOffMeanwhileAreNamed) {
  add_shard(random(3000, 64), 64);
  add_shard(random(3000, 64), 64, DType::kF16);
  const std::vector<float> query = random(1, 64);
  for (const std::int64_t shard : {1, 0}) {
    const Collection collection(folder_, 2);
    const fs::path path = folder_ / fmt::format("embeddings-{:05}.npy", shard);
    fs::resize_file(path, fs::file_size(path) - 100'000);
    const std::function<void()> uses[] = {[&] { (void)collection.nearest(query, 3); },
                                          [&] { (void)collection.duplicates({.threshold = 0.9}); },
                                          [&] { (void)collection.embedding(3000 * shard + 2999); }};
    for (const auto& use : uses) {
      EXPECT_SAYS(thrown_by(use), path.native() + ": changed while it was read");
    }
    fs::resize_file(path, fs::file_size(path) + 100'000);
  }
  const search::Shards shards({folder_});
  search::RowReader reader(shards);
  AlignedBuffer<float> rows;
  const search::RowBlock last{.shard = 0, .first = 2990, .count = 10};
  EXPECT_NO_THROW(reader.read(last, rows));
  fs::resize_file(folder_ / "embeddings-00000.npy", 1000);
  EXPECT_SAYS(thrown_by([&] { reader.read(last, rows); }),
              "embeddings-00000.npy: shrank to 1000 bytes");
}

TEST_F(SearchTest, IndexesThatAreCutOffMeanwhileAreNamed) {
  add_shard(random(30, 4), 4);
  add_shard(random(3000, 4), 4);
  const Collection collection(folder_);
  fs::resize_file(folder_ / "index-00001.jsonl", 1000);
  const std::function<void()> uses[] = {[&] { (void)collection.source(3029); },
                                        [&] { (void)collection.find("absent"); },
                                        [&] { (void)collection.find_file("absent"); }};
  for (const auto& use : uses) {
    EXPECT_SAYS(thrown_by(use), "index-00001.jsonl: changed while it was read");
  }
  EXPECT_EQ(collection.source(29), "photo-29");
}

TEST_F(SearchTest, EscapesThatAreNoneNameFileAndLine) {
  add_shard(random(3, 4), 4);
  write("index-00000.jsonl",
        "{\"source\": \"a\"}\n{\"source\": \"p\\\\qhotos/b.jpg\"}\n{\"source\": \"c\"}\n");
  for (const std::string& error :
       {error_of([](const Collection& c) { (void)c.source(1); }),
        error_of([](const Collection& c) { (void)c.find_file("b.jpg"); })}) {
    EXPECT_SAYS(error, "index-00000.jsonl, line 2: \"source\": malformed escape at byte 1");
  }
  write("manifest.json", R"({"finished": true, "model": {"name": "a\\q", "sha256": ""}})");
  EXPECT_SAYS(error_of(),
              "manifest.json: the model's name or the working folder: malformed escape");
}

TEST_F(SearchTest, LinesOfManyBlocksAreFound) {
  constexpr std::int64_t kRows = 1000;
  add_shard(random(kRows, 2), 2);
  std::string index;
  for (std::int64_t row = 0; row < kRows; ++row) {  // 6 MB: lines cross every reading's end
    index += fmt::format("{{\"row\": {}, \"source\": \"{}/{}\"}}\n", row,
                         std::string(6000 + static_cast<std::size_t>(row), 'x'), row);
  }
  index.pop_back();
  write("index-00000.jsonl", index);
  const Collection collection(folder_);
  for (const std::int64_t row : {0, 1, 170, 171, 500, 998, 999}) {
    const std::string name =
        fmt::format("{}/{}", std::string(6000 + static_cast<std::size_t>(row), 'x'), row);
    EXPECT_EQ(collection.source(row), name);
    EXPECT_EQ(collection.find(name), row);
  }
  EXPECT_EQ(collection.find("x"), std::nullopt);
  write("index-00000.jsonl", std::string(17 << 20, 'x') + std::string(kRows, '\n'));
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.source(0); }),
              "index-00000.jsonl, line 1: 17825793 bytes are too many");
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.find("a"); }), "line 1: 17825793 bytes");
}

TEST_F(SearchTest, VectorsFromNpy) {
  io::write_file_atomically(folder_ / "q.npy",
                            io::npy_header(DType::kF16, {2}) + std::string("\x00\x3c\x00\xc0", 4));
  const Vectors vectors = read_vectors(folder_ / "q.npy");
  EXPECT_EQ(vectors.rows, 1);
  EXPECT_EQ(vectors.values, (std::vector<float>{1, -2}));
  io::write_file_atomically(folder_ / "q.npy", io::npy_header(DType::kU8, {2}) + std::string("ab"));
  EXPECT_THROW((void)read_vectors(folder_ / "q.npy"), Error);
}

}  // namespace
}  // namespace fovea
