// Counts the outputs per shard. Only shard numbers that occur are stored, since a job may have
// billions of shards.
#include "collection/shard_set.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "core/wording.hpp"

namespace fovea::collection {
namespace {

// The outputs of jobs that have the same number of shards.
class ShardSet {
 public:
  void add(const ShardOutput& output) {
    const pipeline::JobIdentity& identity = *output.identity;
    if (identity.missing.numbers.empty()) {
      outputs_[identity.shard_index].push_back(output.display_path);
      return;
    }
    ++merged_count_;
    for (const std::uint64_t number : identity.missing.numbers) {
      outputs_[number];
      ++lacking_counts_[number];
    }
  }

  struct Gap {
    pipeline::MissingShards shards;
    std::uint64_t missing = 0;   // the number of missing shards; `shards` lists the first of them
    std::uint64_t copies = 0;    // the number of copies of the shards that are complete
    std::string duplicate = {};  // names a shard with that many copies
  };

  [[nodiscard]] Gap gap(std::uint64_t count) const {
    Gap gap{.shards = {.count = count, .numbers = {}}};
    const bool all_occur = outputs_.size() == count;
    gap.copies = all_occur ? 0 : merged_count_;
    for (const auto& [number, names] : outputs_) {
      if (copy_count(number) > gap.copies) {
        gap.copies = copy_count(number);
        gap.duplicate = fmt::format("shard {}/{} occurs {} times, in {}", number, count, gap.copies,
                                    fmt::join(names, " and "));
      }
    }
    const bool lacks_others = !all_occur && merged_count_ < gap.copies;
    gap.missing = lacks_others ? count - outputs_.size() : 0;
    std::uint64_t next = 0;
    for (const auto& [number, names] : outputs_) {
      add_range(gap, next, lacks_others ? number : next);
      next = number + 1;
      if (copy_count(number) < gap.copies) {
        ++gap.missing;
        add_range(gap, number, next);
      }
    }
    add_range(gap, next, lacks_others ? count : next);
    return gap;
  }

 private:
  [[nodiscard]] std::uint64_t copy_count(std::uint64_t number) const {
    const auto lacking = lacking_counts_.find(number);
    return outputs_.at(number).size() + merged_count_ -
           (lacking == lacking_counts_.end() ? 0 : lacking->second);
  }

  // Lists the shards [begin, end) as missing, up to the maximum that a list may hold.
  static void add_range(Gap& gap, std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint64_t>& numbers = gap.shards.numbers;
    for (; begin < end && numbers.size() < pipeline::MissingShards::kMaxNumbers; ++begin) {
      numbers.push_back(begin);
    }
  }

  std::map<std::uint64_t, std::vector<std::string>> outputs_;  // names of the outputs of a shard
  std::uint64_t merged_count_ = 0;                             // outputs that have several shards
  // Counts how many of those lack a shard, by its number.
  std::map<std::uint64_t, std::uint64_t> lacking_counts_;
};

}  // namespace

pipeline::MissingShards find_missing_shards(std::span<const ShardOutput> outputs, bool partial) {
  std::map<std::uint64_t, ShardSet> sets;
  for (const ShardOutput& output : outputs) {
    const pipeline::JobIdentity& identity = *output.identity;
    if (const std::uint64_t count =
            identity.missing.numbers.empty() ? identity.shard_count : identity.missing.count;
        count > 1) {
      sets[count].add(output);
    }
  }
  std::vector<std::string> problems;
  pipeline::MissingShards missing;
  bool can_be_partial = true;
  for (const auto& [count, set] : sets) {
    const ShardSet::Gap gap = set.gap(count);
    if (gap.missing == 0) {
      continue;
    }
    problems.push_back(missing_shards_words(gap.shards.numbers, gap.missing, count));
    if (gap.copies > 1 && !gap.duplicate.empty()) {
      problems.back() += ", because " + gap.duplicate;
    }
    can_be_partial = can_be_partial && problems.size() == 1 && gap.copies == 1 &&
                     gap.missing <= pipeline::MissingShards::kMaxNumbers;
    missing = gap.shards;
  }
  if (problems.empty() || (partial && can_be_partial)) {
    return missing;
  }
  fail("{}; {}", fmt::join(problems, "; "),
       can_be_partial
           ? fmt::format("give all shards of the job, or merge an incomplete set with {}",
                         option_words("partial"))
           : "give each shard of each job once");
}

}  // namespace fovea::collection
