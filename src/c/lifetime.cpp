// Tracks the running activities and their stop flags.
#include "c/lifetime.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "core/error.hpp"
#include "fovea/c/status.h"

namespace fovea::c {

struct Lifetime {
  Process process;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::atomic<bool>*> activities;  // the stop flag of each, or null
  bool shut_down = false;
};

namespace {

/// Returns the Lifetime of this process. A forked child gets a new one, because it has neither the
/// parent's activities nor the thread that may hold the mutex. Never destroyed, because threads may
/// still run while static objects are destroyed.
Lifetime& lifetime() {
  static std::atomic<Lifetime*> current = new Lifetime;  // NOLINT: see above
  Lifetime* existing = current.load();
  if (!existing->process.is_current()) {
    auto* const created = new Lifetime;  // NOLINT: see above
    if (current.compare_exchange_strong(existing, created)) {
      return *created;
    }
    delete created;  // NOLINT: another thread was first
  }
  return *existing;
}

}  // namespace

Process::Process() : id_(::getpid()) {}

bool Process::is_current() const {
  return id_ == ::getpid();
}

void require_this_process(const Process& process, std::string_view object_name,
                          std::string_view advice) {
  if (!process.is_current()) {
    fail("{} belongs to the parent of this process, whose threads do not exist here: {}",
         object_name, advice);
  }
}

Activity::Activity(std::atomic<bool>* stop) : lifetime_(&lifetime()), stop_(stop) {
  const std::lock_guard lock(lifetime_->mutex);
  if (lifetime_->shut_down) {
    fail("cannot begin a call: the process is ending");
  }
  lifetime_->activities.push_back(stop);
}

Activity::~Activity() {
  {
    const std::lock_guard lock(lifetime_->mutex);
    auto& activities = lifetime_->activities;
    activities.erase(std::ranges::find(activities, stop_));
  }
  lifetime_->changed.notify_all();
}

bool is_shut_down() {
  Lifetime& shared = lifetime();
  const std::lock_guard lock(shared.mutex);
  return shared.shut_down;
}

bool shut_down(std::chrono::milliseconds time) {
  Lifetime& shared = lifetime();
  std::unique_lock lock(shared.mutex);
  shared.shut_down = true;
  for (std::atomic<bool>* const stop : shared.activities) {
    if (stop != nullptr) {
      *stop = true;
    }
  }
  return shared.changed.wait_for(lock, time, [&] { return shared.activities.empty(); });
}

}  // namespace fovea::c

fovea_status fovea_shut_down(int32_t milliseconds) {
  return fovea::c::guarded([&] {
    if (!fovea::c::shut_down(std::chrono::milliseconds(milliseconds))) {
      fovea::fail("some calls are still running after {} ms", milliseconds);
    }
  });
}
