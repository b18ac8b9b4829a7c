// Many schedules at once.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/thread_pool.hpp"
#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

ScheduleReport Emulation::run(const ScheduleOptions& options) const {
  ScheduleReport report;
  std::mutex mutex;
  // The first that is not clean: of those before it each runs, so that it is the same one whatever
  // the threads do.
  std::atomic<std::size_t> first = options.count;
  const auto take = [&](std::size_t index, Outcome outcome) {
    const std::scoped_lock lock(mutex);
    ++report.run;
    report.steps += outcome.report.steps;
    const bool is_clean = outcome.is_clean();
    if (!is_clean && index < first) {
      first = index;
    }
    if (index == first || (is_clean && index == 0 && report.found.empty())) {
      report.shown = outcome;
    }
    if (!is_clean) {
      outcome.written.clear();  // of what is shown alone
      report.found.push_back(std::move(outcome));
    }
  };
  ThreadPool pool(runs_at_a_time(options));
  pool.parallel_for(options.count, [&](std::size_t index, int /*worker*/) {
    if (index > first && !options.all) {
      return;
    }
    emu::RunOptions run = options.run;
    run.seed = options.first_seed + index;
    take(index, run_one(run));
  });
  std::ranges::sort(report.found, {}, &Outcome::seed);
  if (!options.all && !report.found.empty()) {
    report.found.resize(1);
  }
  return report;
}

}  // namespace fovea::emulation
