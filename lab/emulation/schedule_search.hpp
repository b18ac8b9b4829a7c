// Search of schedules: many run in parallel, up to the first that is not clean.
#pragma once

#include <cstddef>
#include <functional>

namespace fovea::emulation {

/// Schedules by their numbers, of which there may be none.
struct ScheduleRange {
  std::size_t begin = 0;
  std::size_t end = 1;
  bool all = false;  // goes on behind one that is not clean
  int threads = 1;
};

/// Calls run(number), which returns whether the schedule is clean, from several threads. Unless
/// `all`, none is started behind one that is not clean, and all before it are run, so that the
/// result does not depend on the timing of threads. Returns the number of the first schedule that
/// is not clean; `end` if all are.
std::size_t search_schedules(const ScheduleRange& range,
                             const std::function<bool(std::size_t)>& run);

}  // namespace fovea::emulation
