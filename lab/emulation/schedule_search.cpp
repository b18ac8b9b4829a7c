// Search of schedules: many run in parallel, up to the first that is not clean.
#include "lab/emulation/schedule_search.hpp"

#include <algorithm>
#include <atomic>

#include "core/thread_pool.hpp"

namespace fovea::emulation {

std::size_t search_schedules(const ScheduleRange& range,
                             const std::function<bool(std::size_t)>& run) {
  if (range.begin >= range.end) {
    return range.end;
  }
  const std::size_t count = range.end - range.begin;
  std::atomic<std::size_t> first = range.end;
  const auto threads = static_cast<std::size_t>(std::max(range.threads, 1));
  ThreadPool pool(static_cast<int>(std::min(threads, count)));
  pool.parallel_for(count, [&](std::size_t index, int /*worker*/) {
    const std::size_t number = range.begin + index;
    if ((number > first && !range.all) || run(number)) {
      return;
    }
    std::size_t seen = first;
    while (number < seen && !first.compare_exchange_weak(seen, number)) {
    }
  });
  return first;
}

}  // namespace fovea::emulation
