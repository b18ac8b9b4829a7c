// InputStream: the inputs of this job's share, numbered and fingerprinted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "pipeline/fingerprint.hpp"
#include "pipeline/source.hpp"

namespace fovea::pipeline {

/// Names to be tried again, and how often each failed.
using RetryNames = std::map<std::string, std::uint64_t, std::less<>>;

/// The inputs of a Source that are selected: one shard of them, or those that failed before.
class InputStream {
 public:
  InputStream(std::unique_ptr<Source> source, std::uint64_t shard_index, std::uint64_t shard_count);

  /// Whether the source has an input at all, selected or not. To be called before the first is
  /// taken.
  [[nodiscard]] bool has_inputs(StopFlag stop);

  /// Selects only these inputs of the shard. To be called before the first is taken.
  void select_only(RetryNames names) { only_ = std::move(names); }

  /// Selects only those inputs of the shard for which `wanted` is true. It is called once with
  /// each, in their order, by whoever takes inputs. To be called before the first is taken.
  void select_if(std::function<bool(const Item&)> wanted) { wanted_ = std::move(wanted); }

  /// The next selected input, with its bytes where they must be read in order. False at the end.
  /// Throws Interrupted, as the others do, when `stop` is set.
  bool next(Item& item, const Limits& limits = {});

  /// Skips the first `count` selected inputs without reading them. Throws fovea::Error when
  /// there are fewer, or when their names do not hash to `expected`.
  void skip(std::uint64_t count, std::uint64_t expected, StopFlag stop = {});

  /// Skips all remaining inputs and returns their number.
  std::uint64_t skip_rest(StopFlag stop = {});

  /// The names to be tried again that did not occur, and how often. To be called at the end of the
  /// inputs.
  [[nodiscard]] RetryNames lost() const;

  /// Hash over the names of the inputs passed so far.
  [[nodiscard]] const NameHash& names() const { return names_; }

 private:
  bool select(Item& item, StopFlag stop);

  std::unique_ptr<Source> source_;
  std::optional<Item> first_;  // taken by has_inputs()
  std::uint64_t shard_index_;
  std::uint64_t shard_count_;
  std::optional<RetryNames> only_;
  std::function<bool(const Item&)> wanted_;
  std::uint64_t number_ = 0;
  NameHash names_;
};

}  // namespace fovea::pipeline
