// Runs work on several threads, and passes on its results in order.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/thread_pool.hpp"

namespace fovea::lab {

/// Calls `make(index, worker)` for each index on the pool's threads, and `tell(result)` for each
/// result in order, while later results are still being made. Only one thread at a time calls
/// `tell`.
template <typename Make, typename Tell>
void in_order(ThreadPool& pool, std::size_t count, const Make& make, const Tell& tell) {
  // Results that have not been passed on yet.
  std::map<std::size_t, std::invoke_result_t<Make, std::size_t, int>> done;
  std::size_t next = 0;
  std::mutex mutex;
  pool.parallel_for(count, [&](std::size_t index, int worker) {
    auto result = make(index, worker);
    const std::lock_guard lock(mutex);
    done.emplace(index, std::move(result));
    for (; !done.empty() && done.begin()->first == next; ++next) {
      tell(std::move(done.extract(done.begin()).mapped()));
    }
  });
}

}  // namespace fovea::lab
