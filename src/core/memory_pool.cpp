// MemoryPool: take() draws a ticket number, and tickets are served in order.
#include "core/memory_pool.hpp"

#include <chrono>

namespace fovea {

MemoryPool::Lease MemoryPool::take(std::size_t bytes, StopFlag stop) {
  if (bytes > size_) {
    fail_for_resources("{} bytes were requested from a pool of {}", bytes, size_);
  }
  // A flag that a signal handler sets cannot wake a waiting thread, so the thread polls it.
  constexpr std::chrono::milliseconds kStopInterval{50};
  std::unique_lock lock(mutex_);
  const std::size_t ticket = next_number_++;
  waiting_.insert(ticket);
  bool is_stopped = false;
  while (!is_stopped && (*waiting_.begin() != ticket || free_ < bytes)) {
    changed_.wait_for(lock, kStopInterval);
    is_stopped = stop.is_set();
  }
  waiting_.erase(ticket);
  if (!is_stopped) {
    free_ -= bytes;
  }
  lock.unlock();
  changed_.notify_all();
  if (is_stopped) {
    throw Interrupted();
  }
  return {*this, bytes};
}

void MemoryPool::give_back(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    free_ += bytes;
  }
  changed_.notify_all();
}

}  // namespace fovea
