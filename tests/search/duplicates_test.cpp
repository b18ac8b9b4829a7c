// Groups of duplicates against a brute force in double precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/search.hpp"
#include "support.hpp"

namespace fovea {
namespace {

// A fixture of its own, because a suite has one class.
class DuplicatesTest : public test::SearchTest {};

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

TEST_F(DuplicatesTest, DuplicatesAreLikeTheirKeptPhotoNotLinkedByChains) {
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

TEST_F(DuplicatesTest, DuplicatesEqualBruteForce) {
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
      std::ranges::sort(order, {}, [](std::int64_t row) { return std::pair(-width_of(row), row); });
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

TEST_F(DuplicatesTest, ManyRowsNeedSeveralRounds) {
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

}  // namespace
}  // namespace fovea
