// ThreadPool: threads take indices from an atomic counter and are woken by a generation number.
#include "core/thread_pool.hpp"

#include <system_error>
#include <utility>

#include "core/control_group.hpp"
#include "core/error.hpp"

namespace fovea {

int available_threads() {
  return threads_within("/");
}

ThreadPool::ThreadPool(int threads) {
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    stop();
    fail_for_resources("cannot start {} threads: {}; use fewer", threads, error.what());
  } catch (...) {  // no memory for another thread: join those already started
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::parallel_for(std::size_t count,
                              const std::function<void(std::size_t, int)>& body) {
  const std::lock_guard callers_lock(callers_mutex_);
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    running_ = static_cast<int>(workers_.size());
    error_ = nullptr;
    ++generation_;
  }
  start_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  body_ = nullptr;
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::work(int worker) {
  unsigned last_generation = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != last_generation; });
      if (stopping_) {
        return;
      }
      last_generation = generation_;
    }
    drain(worker);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    done_.notify_one();
  }
}

void ThreadPool::drain(int worker) {
  try {
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) {
        return;
      }
      (*body_)(index, worker);
    }
  } catch (...) {
    next_.store(count_, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::current_exception();
    }
  }
}

}  // namespace fovea
