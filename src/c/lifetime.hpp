// Tracks the activities of this process, so that it can wait for them before it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

#include <sys/types.h>

#include "c/status.hpp"

namespace fovea::c {

/// Minimum time between two calls of a progress handler.
inline constexpr std::chrono::milliseconds kBetweenReports{50};

struct Lifetime;

/// Exists while a call or a thread computes; shut_down() waits until there is none.
class Activity {
 public:
  /// `stop`, unless null, is set by shut_down(). Throws fovea::Error after shut_down().
  explicit Activity(std::atomic<bool>* stop = nullptr);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  Lifetime* lifetime_;
  std::atomic<bool>* stop_;
};

/// Whether shut_down() has been called in this process.
[[nodiscard]] bool is_shut_down();

/// Sets all stop flags and waits until no activity is left; false when that takes longer than
/// `time`. From then on, starting an activity throws.
[[nodiscard]] bool shut_down(std::chrono::milliseconds time);

/// Remembers the process that made an object, since a forked child does not have its threads.
class Process {
 public:
  Process();
  [[nodiscard]] bool is_current() const;

 private:
  pid_t id_;
};

/// Deletes an object of the C interface, waiting for its threads. Does nothing in a child of
/// fork(), which does not have these threads, or after shut_down(), when the process is about to
/// end.
template <typename T>
void free_here(T* object) {
  if (object == nullptr || !object->process.is_current()) {
    return;
  }
  static_cast<void>(guarded([&] {
    const Activity activity;
    delete object;
  }));
}

/// Advice for users of an encoder, a run or a collection in a forked child.
constexpr std::string_view kLoadThere = "load the model in the process that uses it";
constexpr std::string_view kOpenThere = "open it in the process that uses it";

/// Throws fovea::Error in any process but `process`, which made the object. `object_name` names the
/// object
/// ("this run"); `advice` is one of the constants above.
void require_this_process(const Process& process, std::string_view object_name,
                          std::string_view advice);

}  // namespace fovea::c
