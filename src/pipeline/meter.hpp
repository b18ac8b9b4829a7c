// Meter: the progress of a job and its time per stage. Ticker: the thread that reports it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/rate.hpp"
#include "fovea/job.hpp"

namespace fovea::pipeline {

/// The activity of the computing thread.
enum class Stage : std::uint8_t { kStart, kDecode, kCompute, kWrite };

/// Measures progress. The computing thread updates it; the reporting thread reads it.
class Meter {
 public:
  using Clock = Rate::Clock;

  Meter(std::uint64_t rows_before, std::uint64_t failed_before);

  /// Records that the computing thread begins `stage`. The time since the last call is added to the
  /// previous stage.
  void enter(Stage stage);
  /// Adds images of the current batch that have been computed.
  void add_computed(std::int64_t images);
  /// Ends the batch: its number of rows, 0 when it was dropped, replaces the images counted by
  /// add_computed().
  void end_batch(std::uint64_t rows);
  void add_failed();
  void set_total(std::uint64_t inputs);
  [[nodiscard]] std::uint64_t failed() const;

  /// Returns the current progress, with the rate over the last seconds.
  [[nodiscard]] JobProgress progress();

 private:
  mutable std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point entered_ = start_;
  Stage stage_ = Stage::kStart;
  double seconds_[4] = {};
  std::uint64_t rows_before_;
  std::uint64_t failed_before_;
  std::uint64_t rows_ = 0;
  std::uint64_t computed_ = 0;  // images of the current batch, not yet in rows_
  std::uint64_t failed_ = 0;
  std::optional<std::uint64_t> total_;
  Rate rate_;
};

/// Calls `tick` at intervals, and `on_stop` once after the flag `stop` is set, both on one thread.
/// A tick that throws is the last one.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick,
         const std::atomic<bool>* stop, std::function<void()> on_stop);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  /// Ends the thread, and rethrows the exception of a tick, if one threw.
  void rethrow();

 private:
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace fovea::pipeline
