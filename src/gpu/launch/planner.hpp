// Planner: chooses the kernel for each problem on a device, and caches the choices.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "gpu/launch/attention.hpp"
#include "gpu/launch/gate_record.hpp"
#include "gpu/launch/gemm.hpp"

namespace fovea::gpu {

/// A cache of values by key. When it is full, the least recently used value is removed.
template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}

  /// Returns the cached value for the key, or adds the result of `make`.
  template <typename Make>
  [[nodiscard]] Value& get(const Key& key, const Make& make) {
    if (const auto found = places_.find(key); found != places_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    entries_.emplace_front(key, make());
    places_.emplace(key, entries_.begin());
    if (entries_.size() > capacity_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

  void clear() {
    places_.clear();
    entries_.clear();
  }

 private:
  using Entries = std::list<std::pair<Key, Value>>;
  std::size_t capacity_;
  Entries entries_;  // the most recently used first
  std::map<Key, typename Entries::iterator> places_;
};

/// Chooses and caches kernels for problems. Thread-safe.
class Planner {
 public:
  /// `device` and `record` must outlive the planner.
  Planner(const DeviceInfo& device, const GateRecord& record) : device_(device), record_(record) {}
  explicit Planner(const DeviceInfo& device) : Planner(device, gate_record(device)) {}

  [[nodiscard]] GemmChoice gemm(const GemmProblem& problem);
  /// Throws the errors of choose_attention.
  [[nodiscard]] AttentionChoice attention(const ops::AttentionProblem& problem,
                                          std::optional<AttentionLevel> level = std::nullopt);
  /// Returns the notice of a choice if it is the first one that is not empty; otherwise "".
  [[nodiscard]] std::string news(const std::string& notice) const;

 private:
  static constexpr std::size_t kMaxEntries = 4096;  // bounds the memory if sizes never repeat

  const DeviceInfo& device_;
  const GateRecord& record_;
  std::mutex mutex_;
  LruCache<GemmProblem, GemmChoice> gemms_{kMaxEntries};
  LruCache<std::pair<ops::AttentionProblem, std::optional<AttentionLevel>>, AttentionChoice>
      attentions_{kMaxEntries};
};

}  // namespace fovea::gpu
