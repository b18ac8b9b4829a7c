// What computes in this process, so that it can end without pulling the ground from under that.
#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

#include <sys/types.h>

#include "c/status.hpp"

namespace fovea::c {

/// Work makes progress thousands of times per second; handlers want to know it less often.
inline constexpr std::chrono::milliseconds kBetweenReports{50};

struct Lifetime;

/// Lives as long as a call or a thread computes: shut_down() waits for it.
class Activity {
 public:
  /// shut_down() sets `stop`, when it is given. Throws fovea::Error after shut_down().
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

/// Stops what can be stopped, and waits until nothing computes; false when that took longer than
/// `time`. Activities fail to begin from now on.
[[nodiscard]] bool shut_down(std::chrono::milliseconds time);

/// Remembers the process, whose threads a forked child does not have.
class Process {
 public:
  Process();
  [[nodiscard]] bool is_this_one() const;

 private:
  pid_t id_;
};

/// Deletes an object of the C interface, waiting for its threads. A child of fork() has none of
/// them, and after shut_down() the process takes all back; both leave it where it is.
template <typename T>
void free_here(T* object) {
  if (object == nullptr || !object->process.is_this_one()) {
    return;
  }
  static_cast<void>(guarded([&] {
    const Activity activity;
    delete object;
  }));
}

/// What to do where an encoder, a run or a collection is not.
constexpr std::string_view kLoadThere = "load the model in the process that uses it";
constexpr std::string_view kOpenThere = "open it in the process that uses it";

/// Throws fovea::Error in a child of the process that made `what`: "this run". `advice`: see above.
void require_this_process(const Process& process, std::string_view what, std::string_view advice);

}  // namespace fovea::c
