// Counts the outputs per shard. Only shard numbers that occur are visited, as counts can be huge.
#include "collection/shard_set.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "core/wording.hpp"

namespace fovea::collection {
namespace {

// The shards of jobs with equal numbers of shards.
class ShardSet {
 public:
  void add(const GivenOutput& output) {
    const pipeline::JobIdentity& identity = *output.identity;
    if (identity.missing.numbers.empty()) {
      named_[identity.shard_index].push_back(output.shown);
      return;
    }
    ++merged_;
    for (const std::uint64_t number : identity.missing.numbers) {
      named_[number];
      ++lacking_[number];
    }
  }

  struct Gap {
    pipeline::MissingShards shards;
    std::uint64_t all = 0;        // how many are missing, of which `shards` may be the first ones
    std::uint64_t copies = 0;     // how often others are there
    std::string most_often = {};  // one of those
  };

  [[nodiscard]] Gap gap(std::uint64_t count) const {
    Gap gap{.shards = {.count = count, .numbers = {}}};
    const bool all_named = named_.size() == count;
    gap.copies = all_named ? 0 : merged_;
    for (const auto& [number, names] : named_) {
      if (times(number) > gap.copies) {
        gap.copies = times(number);
        gap.most_often = fmt::format("shard {}/{} is there {} times, in {}", number, count,
                                     gap.copies, fmt::join(names, " and "));
      }
    }
    const bool lacks_others = !all_named && merged_ < gap.copies;
    gap.all = lacks_others ? count - named_.size() : 0;
    std::uint64_t next = 0;
    for (const auto& [number, names] : named_) {
      add_range(gap, next, lacks_others ? number : next);
      next = number + 1;
      if (times(number) < gap.copies) {
        ++gap.all;
        add_range(gap, number, next);
      }
    }
    add_range(gap, next, lacks_others ? count : next);
    return gap;
  }

 private:
  [[nodiscard]] std::uint64_t times(std::uint64_t number) const {
    const auto lacking = lacking_.find(number);
    return named_.at(number).size() + merged_ - (lacking == lacking_.end() ? 0 : lacking->second);
  }

  static void add_range(Gap& gap, std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t>& numbers = gap.shards.numbers;
    for (; from < to && numbers.size() < pipeline::MissingShards::kMost; ++from) {
      numbers.push_back(from);
    }
  }

  std::map<std::uint64_t, std::vector<std::string>> named_;  // outputs by their shard
  std::uint64_t merged_ = 0;                                 // outputs of several shards
  std::map<std::uint64_t, std::uint64_t> lacking_;           // how many of those lack a shard
};

}  // namespace

pipeline::MissingShards find_missing(std::span<const GivenOutput> outputs, bool partial) {
  std::map<std::uint64_t, ShardSet> sets;
  for (const GivenOutput& output : outputs) {
    const pipeline::JobIdentity& identity = *output.identity;
    if (const std::uint64_t count =
            identity.missing.numbers.empty() ? identity.shard_count : identity.missing.count;
        count > 1) {
      sets[count].add(output);
    }
  }
  std::vector<std::string> problems;
  pipeline::MissingShards missing;
  bool can_be_noted = true;
  for (const auto& [count, set] : sets) {
    const ShardSet::Gap gap = set.gap(count);
    if (gap.all == 0) {
      continue;
    }
    problems.push_back(missing_shards_words(gap.shards.numbers, gap.all, count));
    if (gap.copies > 1 && !gap.most_often.empty()) {  // of merged results nothing is named
      problems.back() += ", because " + gap.most_often;
    }
    can_be_noted = can_be_noted && problems.size() == 1 && gap.copies == 1 &&
                   gap.all <= pipeline::MissingShards::kMost;
    missing = gap.shards;
  }
  if (problems.empty() || (partial && can_be_noted)) {
    return missing;
  }
  fail("{}; {}", fmt::join(problems, "; "),
       can_be_noted ? fmt::format("give all shards of the job, or join what is there by {}",
                                  option_words("partial"))
                    : "give every shard of each job once");
}

}  // namespace fovea::collection
