// Results of work on several threads, told in the order of the work.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "core/thread_pool.hpp"

namespace fovea::lab {

/// Calls `tell(make(index, worker))` for each index, in their order, while results of later ones
/// are still being made; `tell` by one thread at a time.
template <typename Make, typename Tell>
void in_order(ThreadPool& pool, std::size_t count, const Make& make, const Tell& tell) {
  std::map<std::size_t, std::invoke_result_t<Make, std::size_t, int>> done;  // and not told
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
