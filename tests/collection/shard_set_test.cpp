// Which shards of jobs are missing among outputs.
#include "collection/shard_set.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace fovea::collection {
namespace {

using pipeline::JobIdentity;
using pipeline::MissingShards;

JobIdentity shard(std::uint64_t index, std::uint64_t count) {
  JobIdentity identity;
  identity.shard_index = index;
  identity.shard_count = count;
  return identity;
}

JobIdentity merged(std::uint64_t count, std::vector<std::uint64_t> missing) {
  JobIdentity identity;
  identity.missing = {.count = count, .numbers = std::move(missing)};
  return identity;
}

MissingShards find(const std::vector<JobIdentity>& outputs, bool partial) {
  std::vector<ShardOutput> given;
  for (const JobIdentity& identity : outputs) {
    given.push_back({"o" + std::to_string(given.size()), &identity});
  }
  return find_missing_shards(given, partial);
}

std::string problem(const std::vector<JobIdentity>& outputs, bool partial = false) {
  try {
    const MissingShards missing = find(outputs, partial);
    return missing.numbers.empty() ? "" : "partial";
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind("; "));
  }
}

TEST(FindMissing, IsContentWithWholeJobs) {
  EXPECT_EQ(problem({shard(0, 1)}), "");
  EXPECT_EQ(problem({shard(0, 1), shard(0, 1)}), "");
  EXPECT_EQ(problem({shard(1, 3), shard(0, 3), shard(2, 3)}), "");
  EXPECT_EQ(problem({shard(0, 2), shard(0, 2), shard(1, 2), shard(1, 2)}), "");  // of two jobs
  EXPECT_EQ(problem({shard(0, 2), shard(1, 2), shard(0, 3), shard(1, 3), shard(2, 3)}), "");
  EXPECT_EQ(problem({merged(8, {3}), shard(3, 8)}), "");
  EXPECT_EQ(problem({shard(5, 8), merged(8, {3, 5}), shard(0, 1), shard(3, 8)}), "");
  EXPECT_EQ(problem({merged(2, {0}), merged(2, {1})}), "");
}

TEST(FindMissing, NamesThem) {
  std::vector<JobIdentity> seven;
  for (const int index : {0, 1, 2, 4, 5, 6, 7}) {
    seven.push_back(shard(static_cast<std::uint64_t>(index), 8));
  }
  EXPECT_EQ(problem(seven), "shard 3/8 is missing");
  EXPECT_EQ(find(seven, true), (MissingShards{.count = 8, .numbers = {3}}));
  EXPECT_EQ(problem({shard(3, 8), shard(5, 8)}),
            "shards 0/8, 1/8, 2/8, 4/8, 6/8 and 7/8 are missing");
  EXPECT_EQ(problem({shard(0, 2), shard(2, 3)}),
            "shard 1/2 is missing; shards 0/3 and 1/3 are missing");
  EXPECT_EQ(problem({shard(0, 2), shard(2, 3)}, true),
            "shard 1/2 is missing; shards 0/3 and 1/3 are missing");
  EXPECT_EQ(problem({merged(3, {2}), merged(3, {2})}), "shard 2/3 is missing");
  EXPECT_EQ(problem({shard(0, 2), shard(0, 2), shard(1, 2)}),
            "shard 1/2 is missing, because shard 0/2 occurs 2 times, in o0 and o1");
  EXPECT_EQ(problem({shard(0, 2), shard(0, 2)}, true),
            "shard 1/2 is missing, because shard 0/2 occurs 2 times, in o0 and o1");
  EXPECT_EQ(problem({merged(8, {3, 5})}), "shards 3/8 and 5/8 are missing");
  EXPECT_EQ(find({merged(8, {3, 5}), shard(5, 8)}, true),
            (MissingShards{.count = 8, .numbers = {3}}));
}

TEST(FindMissing, WalksNoNumbersThatNobodyNames) {
  constexpr std::uint64_t kMany = 1'000'000'000'000;
  EXPECT_EQ(problem({shard(1, kMany)}, true).substr(0, 80),
            "shards 0/1000000000000, 2/1000000000000, 3/1000000000000, 4/1000000000000, 5/100");
  EXPECT_NE(problem({shard(1, kMany)}).find("and 999999999991 others"), std::string::npos);
  EXPECT_EQ(problem({merged(kMany, {7}), shard(7, kMany)}), "");
}

}  // namespace
}  // namespace fovea::collection
