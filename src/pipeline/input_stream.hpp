// InputStream: the inputs that a job processes, numbered and fingerprinted.
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

/// Names of inputs to be tried again, and how often each of them failed.
using RetryNames = std::map<std::string, std::uint64_t, std::less<>>;

/// The selected inputs of a Source: one shard of them, or those of the shard that failed before.
class InputStream {
 public:
  InputStream(std::unique_ptr<Source> source, std::uint64_t shard_index, std::uint64_t shard_count);

  /// Returns whether the source has any input, selected or not. Must be called before the first
  /// input is taken.
  [[nodiscard]] bool has_inputs(StopFlag stop);

  /// Selects only these inputs of the shard. Must be called before the first input is taken.
  void select_only(RetryNames names) { retry_names_ = std::move(names); }

  /// Selects only those inputs of the shard for which `predicate` returns true. It is called once
  /// per input, in order, on the thread that takes inputs. Must be called before the first input is
  /// taken.
  void select_if(std::function<bool(const Item&)> predicate) { predicate_ = std::move(predicate); }

  /// Takes the next selected input, with its bytes where they must be read in order. Returns false
  /// at the end. Throws Interrupted, as the functions below do, when the stop flag is set.
  bool next(Item& item, const Limits& limits = {});

  /// Skips the first `count` selected inputs without reading them. Throws fovea::Error when
  /// there are fewer, or when their names do not hash to `expected`.
  void skip(std::uint64_t count, std::uint64_t expected, StopFlag stop = {});

  /// Skips all remaining inputs and returns their number.
  std::uint64_t skip_rest(StopFlag stop = {});

  /// Returns the names of select_only() that did not occur among the inputs, and how often they are
  /// missing. Must be called at the end of the inputs.
  [[nodiscard]] RetryNames missing_names() const;

  /// Returns the hash over the names of the inputs so far.
  [[nodiscard]] const NameHash& names() const { return names_; }

 private:
  bool select(Item& item, StopFlag stop);

  std::unique_ptr<Source> source_;
  std::optional<Item> first_;  // taken by has_inputs()
  std::uint64_t shard_index_;
  std::uint64_t shard_count_;
  std::optional<RetryNames> retry_names_;
  std::function<bool(const Item&)> predicate_;
  std::uint64_t number_ = 0;
  NameHash names_;
};

}  // namespace fovea::pipeline
