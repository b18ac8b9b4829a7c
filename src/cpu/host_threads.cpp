// The thread pool and the workers of operators on the host.
#include "cpu/host_threads.hpp"

#include <map>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "cpu/isa.hpp"

namespace fovea::cpu {

Worker& HostThreads::worker() {
  limit_isa_from_environment();
  thread_local Worker mine;
  return mine;
}

// A forked child has none of its parent's threads, so it makes a new pool; the parent's pool cannot
// be destroyed there.
ThreadPool& HostThreads::pool() const {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, int>, ThreadPool*> pools;
  const std::lock_guard lock(mutex);
  ThreadPool*& pool = pools[{getpid(), count_}];
  if (pool == nullptr) {
    pool = new ThreadPool(count_);  // NOLINT: lives as long as the process
  }
  return *pool;
}

}  // namespace fovea::cpu
