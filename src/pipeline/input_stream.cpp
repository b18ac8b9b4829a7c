// InputStream: selects, numbers and fingerprints inputs.
#include "pipeline/input_stream.hpp"

#include <utility>

#include "core/error.hpp"

namespace fovea::pipeline {

InputStream::InputStream(std::unique_ptr<Source> source, std::uint64_t shard_index,
                         std::uint64_t shard_count)
    : source_(std::move(source)), shard_index_(shard_index), shard_count_(shard_count) {
  if (shard_count == 0 || shard_index >= shard_count) {
    fail("invalid shard {}/{}; the first number must be from 0 to one less than the second",
         shard_index, shard_count);
  }
}

bool InputStream::has_inputs(StopFlag stop) {
  Item item;
  if (source_->next(item, stop)) {
    first_ = std::move(item);
  }
  return first_.has_value();
}

bool InputStream::select(Item& item, StopFlag stop) {
  const auto take_next = [&] {
    if (!first_) {
      return source_->next(item, stop);
    }
    item = std::move(*first_);
    first_.reset();
    return true;
  };
  while (take_next()) {
    if (number_++ % shard_count_ != shard_index_) {
      continue;
    }
    if (retry_names_) {
      const auto entry = retry_names_->find(item.name);
      if (entry == retry_names_->end() || entry->second == 0) {
        continue;
      }
      --entry->second;
    }
    if (predicate_ && !predicate_(item)) {
      continue;
    }
    names_.add(item.name);
    return true;
  }
  return false;
}

bool InputStream::next(Item& item, const Limits& limits) {
  if (!select(item, limits.stop)) {
    return false;
  }
  source_->load(item, limits);
  return true;
}

RetryNames InputStream::missing_names() const {
  RetryNames names;
  if (retry_names_) {
    for (const auto& [name, count] : *retry_names_) {
      if (count > 0) {
        names.emplace(name, count);
      }
    }
  }
  return names;
}

void InputStream::skip(std::uint64_t count, std::uint64_t expected, StopFlag stop) {
  Item item;
  for (std::uint64_t skipped = 0; skipped < count; ++skipped) {
    if (!select(item, stop)) {
      fail(
          "the inputs have changed since this output was begun: {} were processed, but there are "
          "only {} now",
          count, skipped);
    }
  }
  if (names_.value() != expected) {
    fail(
        "the inputs have changed since this output was begun: the first {}, which were processed, "
        "have other names or another order now",
        count);
  }
}

std::uint64_t InputStream::skip_rest(StopFlag stop) {
  Item item;
  std::uint64_t skipped = 0;
  while (select(item, stop)) {
    ++skipped;
  }
  return skipped;
}

}  // namespace fovea::pipeline
