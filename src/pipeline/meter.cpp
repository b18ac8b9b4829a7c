// Meter: measures the progress of a job. Ticker: calls a function at intervals.
#include "pipeline/meter.hpp"

#include <algorithm>
#include <utility>

#include "core/thread.hpp"

namespace fovea::pipeline {
namespace {

double seconds_between(Meter::Clock::time_point begin, Meter::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Meter::Meter(std::uint64_t rows_before, std::uint64_t failed_before)
    : rows_before_(rows_before), failed_before_(failed_before) {}

void Meter::enter(Stage stage) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  seconds_[static_cast<std::size_t>(stage_)] += seconds_between(entered_, now);
  entered_ = now;
  stage_ = stage;
  if (!rate_.started()) {
    rate_.start(now);  // the time to load the model does not count
  }
}

void Meter::add_computed(std::int64_t images) {
  const std::lock_guard lock(mutex_);
  computed_ += static_cast<std::uint64_t>(images);
  rate_.set(Clock::now(), rows_ + computed_);
}

void Meter::end_batch(std::uint64_t rows) {
  const std::lock_guard lock(mutex_);
  computed_ = 0;
  rows_ += rows;
  rate_.set(Clock::now(), rows_);
}

void Meter::add_failed() {
  const std::lock_guard lock(mutex_);
  ++failed_;
}

void Meter::set_total(std::uint64_t inputs) {
  const std::lock_guard lock(mutex_);
  total_ = inputs;
}

std::uint64_t Meter::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_before_ + failed_;
}

JobProgress Meter::progress() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  JobProgress progress;
  progress.rows = rows_before_ + rows_ + computed_;
  progress.failed = failed_before_ + failed_;
  progress.new_rows = rows_ + computed_;
  progress.total_inputs = total_;
  progress.seconds = seconds_between(start_, now);
  progress.images_per_second = rate_.per_second(now);
  const std::uint64_t inputs_done = progress.rows + progress.failed;
  if (total_ && progress.images_per_second > 0) {
    progress.seconds_left =
        static_cast<double>(*total_ - std::min(inputs_done, *total_)) / progress.images_per_second;
  }
  double stage_seconds[4];
  std::copy(std::begin(seconds_), std::end(seconds_), stage_seconds);
  stage_seconds[static_cast<std::size_t>(stage_)] += seconds_between(entered_, now);
  const auto share = [&](Stage stage) {
    return progress.seconds > 0 ? stage_seconds[static_cast<std::size_t>(stage)] / progress.seconds
                                : 0;
  };
  progress.decode_share = share(Stage::kDecode);
  progress.compute_share = share(Stage::kCompute);
  progress.write_share = share(Stage::kWrite);
  return progress;
}

Ticker::Ticker(std::chrono::milliseconds interval, std::function<void()> tick,
               const std::atomic<bool>* stop, std::function<void()> on_stop)
    : thread_(start_thread("reports progress", [this, interval, tick = std::move(tick), stop,
                                                on_stop = std::move(on_stop)]() mutable {
        constexpr std::chrono::milliseconds kStopInterval{50};
        auto next_tick = Meter::Clock::now() + interval;
        bool stop_seen = stop == nullptr;
        std::unique_lock lock(mutex_);
        while (!ended_) {
          const auto now = Meter::Clock::now();
          const auto wake_time = stop_seen ? next_tick : std::min(next_tick, now + kStopInterval);
          changed_.wait_until(lock, wake_time, [this] { return ended_; });
          if (ended_) {
            return;
          }
          lock.unlock();
          if (!stop_seen && stop->load()) {
            stop_seen = true;
            on_stop();
          }
          if (Meter::Clock::now() >= next_tick) {
            next_tick += interval;
            try {
              tick();
            } catch (...) {
              error_ = std::current_exception();
              tick = [] {};
            }
          }
          lock.lock();
        }
      })) {}

Ticker::~Ticker() {
  end();
}

void Ticker::rethrow() {
  end();
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Ticker::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace fovea::pipeline
