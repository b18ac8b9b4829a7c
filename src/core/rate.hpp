// Rate: estimates how many items per second are finished.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

namespace fovea {

/// The rate over the last seconds, measured between the times at which items were finished. So it
/// does not fall while a batch is in progress, only when nothing is finished for longer than usual.
/// Not thread-safe.
class Rate {
 public:
  using Clock = std::chrono::steady_clock;

  /// Call this when the work begins; `done` items were finished before.
  void start(Clock::time_point now, std::uint64_t done = 0) { moments_ = {{now, done}}; }
  [[nodiscard]] bool started() const { return !moments_.empty(); }

  /// Records that `done` items are finished, including those before start(). Does nothing before
  /// start(), or when `done` has not increased.
  void set(Clock::time_point now, std::uint64_t done) {
    if (moments_.empty() || done <= moments_.back().done) {
      return;
    }
    const std::size_t count = moments_.size();
    if (count > 2 && now - moments_[count - 2].time < kResolution) {
      moments_.back() = {now, done};
    } else {
      moments_.push_back({now, done});
    }
    // The oldest entry may be older than the window, so that slow work has a rate, too.
    while (moments_.size() > 2 && now - moments_[1].time >= kWindow) {
      moments_.pop_front();
    }
  }

  /// Returns 0 until the first item is finished.
  [[nodiscard]] double per_second(Clock::time_point now) const {
    if (moments_.size() < 2) {
      return 0;
    }
    Clock::duration longest{};
    for (std::size_t i = 1; i < moments_.size(); ++i) {
      longest = std::max(longest, moments_[i].time - moments_[i - 1].time);
    }
    const Moment& first = moments_.front();
    const Moment& last = moments_.back();
    const std::chrono::duration<double> seconds =
        std::max(last.time - first.time, now - first.time - 2 * longest);
    return seconds.count() > 0 ? static_cast<double>(last.done - first.done) / seconds.count() : 0;
  }

 private:
  static constexpr std::chrono::seconds kWindow{15};
  static constexpr std::chrono::milliseconds kResolution{100};
  struct Moment {
    Clock::time_point time;
    std::uint64_t done = 0;
  };
  std::deque<Moment> moments_;
};

}  // namespace fovea
