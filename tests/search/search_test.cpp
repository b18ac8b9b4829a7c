// The search against a brute force in double precision, on outputs of `fovea embed` made by hand.
#include "fovea/search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "search/shards.hpp"
#include "support.hpp"

namespace fovea {
namespace {
namespace fs = std::filesystem;

using test::SearchTest;

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
  EXPECT_SAYS(refused({at("a"), at("c")}), "c/embeddings-00000.npy: the embeddings have 5 numbers");
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
  for (const char* const damaged :
       {R"({"finished": "no"})", R"({"finished": 0})", R"({"finished": [], "counts": [1]})"}) {
    write("manifest.json", damaged);
    EXPECT_SAYS(error_of(), "holds no embeddings-*.npy");
  }
  for (const char* const damaged : {"{", "[]"}) {
    write("manifest.json", damaged);
    EXPECT_SAYS(error_of(), "manifest.json: ");
  }
  write("manifest.json", R"({"finished": false, "counts": [1]})");
  EXPECT_SAYS(error_of(), "not finished: 0 rows so far");
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
  EXPECT_SAYS(error_of(), "manifest.json: expected a JSON object");
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
  EXPECT_SAYS(error_of(), "embeddings-00001.npy: the embeddings have 5 numbers");
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
              "index-00000.jsonl, line 1: the line has 17825793 bytes");
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.find("a"); }),
              "line 1: the line has 17825793 bytes");
}

// Long indexes are not read to be opened, nor for a single row.
TEST_F(SearchTest, LongIndexesAreLookedUp) {
  constexpr std::int64_t kRows = 40'000;
  add_shard(random(kRows, 2), 2);
  const auto name = [](std::int64_t row) {
    return fmt::format("{}/{}", std::string(static_cast<std::size_t>(row * row % 97), 'x'), row);
  };
  const auto line = [&](std::int64_t row) {
    return fmt::format("{{\"row\": {}, \"source\": \"{}\"}}\n", row, name(row));
  };
  const auto write_index = [&](const std::function<std::string(std::int64_t)>& line_of) {
    std::string index;
    for (std::int64_t row = 0; row < kRows; ++row) {
      index += line_of(row);
    }
    write("index-00000.jsonl", index);
  };
  write_index(line);
  const auto check = [&](const Collection& collection) {
    for (const std::int64_t row : {0L, 1L, 2L, 777L, 20'000L, 39'998L, 39'999L}) {
      EXPECT_EQ(collection.source(row), name(row));
    }
    for (int time = 0; time < 50; ++time) {
      const auto row = static_cast<std::int64_t>(random_() % kRows);
      EXPECT_EQ(collection.source(row), name(row));
    }
  };
  {
    const Collection collection(folder_);
    check(collection);
    EXPECT_EQ(collection.find(name(31'234)), 31'234);
    for (int time = 0; time < 6; ++time) {  // more than are looked up one by one
      check(collection);
    }
  }
  // A line without its row, of another row, or missing: found, refused, and told.
  write_index(
      [&](std::int64_t row) { return row == 500 ? "{\"source\": \"no row\"}\n" : line(row); });
  EXPECT_EQ(Collection(folder_).source(500), "no row");
  EXPECT_EQ(Collection(folder_).source(501), name(501));
  write_index([&](std::int64_t row) { return line(row == 500 ? 501 : row); });
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.source(500); }), "is 501, expected 500");
  write_index([&](std::int64_t row) { return row == 500 ? "" : line(row); });
  for (const auto& use : std::vector<std::function<void(const Collection&)>>{
           [](const Collection& c) { (void)c.source(500); },
           [](const Collection& c) { (void)c.find("absent"); }}) {
    EXPECT_SAYS(error_of(use), "index-00000.jsonl: the index has 39999 lines for 40000 rows");
  }
  write_index([&](std::int64_t row) { return row == kRows - 1 ? "" : line(row); });
  EXPECT_SAYS(error_of(), "has 40000 rows, but its index index-00000.jsonl has 39999 lines");
  write_index([&](std::int64_t row) { return line(row == kRows - 1 ? row + 1 : row); });
  EXPECT_EQ(error_of(), "no error");  // as many lines as rows
  EXPECT_SAYS(error_of([](const Collection& c) { (void)c.source(39'999); }), "expected 39999");
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
