// ThreadPool: a fixed team of threads that runs index ranges; the caller takes part.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea {

/// Number of hardware threads this process may use (core/control_group.hpp), at least 1.
[[nodiscard]] int available_threads();

/// A team of `threads()` workers, of which the calling thread is worker 0.
/// One parallel_for runs at a time; concurrent callers take turns. Not re-entrant.
class ThreadPool {
 public:
  /// Throws fovea::Error when the system has no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(index, worker) once for every index in [0, count), handed out dynamically in order;
  /// `worker` in [0, threads()) names the thread. Returns when all are done. The first exception
  /// prevents further calls of `body` and is rethrown here.
  void parallel_for(std::size_t count, const std::function<void(std::size_t, int)>& body);

 private:
  void stop();
  void work(int worker);
  void drain(int worker);

  std::mutex callers_mutex_;  // held during parallel_for, to serialise callers
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(std::size_t, int)>* body_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::size_t count_ = 0;
  int running_ = 0;
  unsigned generation_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

/// Calls `make` once for each worker of a pool and returns the results.
template <typename Make>
[[nodiscard]] auto for_workers(const ThreadPool& pool, const Make& make) {
  std::vector<decltype(make())> values;
  values.reserve(static_cast<std::size_t>(pool.threads()));
  for (int worker = 0; worker < pool.threads(); ++worker) {
    values.push_back(make());
  }
  return values;
}

}  // namespace fovea
