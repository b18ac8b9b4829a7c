// MemoryPool: a memory budget that several threads share.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

#include "core/stop.hpp"

namespace fovea {

/// Only counts bytes; it allocates no memory. Thread-safe.
class MemoryPool {
 public:
  /// Bytes taken from a pool, given back on destruction. Movable. The pool must outlive it.
  class Lease {
   public:
    Lease() = default;

    [[nodiscard]] std::size_t bytes() const { return pool_ ? pool_.get_deleter().bytes : 0; }
    void release() { pool_.reset(); }

   private:
    friend class MemoryPool;
    struct GiveBack {
      std::size_t bytes;
      void operator()(MemoryPool* pool) const { pool->give_back(bytes); }
    };
    Lease(MemoryPool& pool, std::size_t bytes) : pool_(&pool, GiveBack{bytes}) {}

    std::unique_ptr<MemoryPool, GiveBack> pool_;
  };

  explicit MemoryPool(std::size_t bytes) : size_(bytes), free_(bytes) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// The size of the whole pool. Callers must not ask take() for more.
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Waits until `bytes` are free, in the order of the calls, and takes them. A thread must not
  /// take twice from one pool: two threads that each hold a part and wait for more would deadlock.
  /// Requires bytes <= size(). Throws Interrupted when `stop` is set while it waits.
  [[nodiscard]] Lease take(std::size_t bytes, StopFlag stop = {});

 private:
  void give_back(std::size_t bytes);

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t free_;
  // Requests are served by number, so that many small ones cannot starve a large one.
  std::size_t next_number_ = 0;
  std::set<std::size_t> waiting_;  // ticket numbers; the lowest is served next
};

}  // namespace fovea
