// Outputs of `fovea embed` made by hand, and the brute force that judges searches in them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "fovea/search.hpp"
#include "io/atomic_file.hpp"
#include "io/npy.hpp"

namespace fovea::test {
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

}  // namespace fovea::test
