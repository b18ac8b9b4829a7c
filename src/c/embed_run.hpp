// fovea_embedding: a run over images or texts in a separate thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "c/lifetime.hpp"
#include "fovea/c/encoder.h"
#include "fovea/images.hpp"

struct fovea_embedding {
 public:
  const fovea::c::Process process;

  /// What a run passes to its work: the stop flag and the callbacks.
  struct Control {
    const std::atomic<bool>* stop;
    std::function<void(std::size_t done)> on_progress;
    std::function<void(std::string_view)> on_note;
  };
  /// Does the work of the run; returns the failures of single images.
  using Work = std::function<std::vector<fovea::ImageFailure>(const Control& control)>;

  /// Starts a thread that calls `work` on `count` inputs.
  fovea_embedding(std::size_t count, Work work);
  ~fovea_embedding() { end(); }
  fovea_embedding(const fovea_embedding&) = delete;
  fovea_embedding& operator=(const fovea_embedding&) = delete;

  /// Waits for the end of the run; false when `time` has passed before. Rethrows the exception that
  /// ended it early.
  [[nodiscard]] bool wait(std::chrono::milliseconds time);
  /// Stops the run and joins its thread, after which the memory of inputs and rows is no longer
  /// used.
  void end();
  void stop() { stop_ = true; }
  [[nodiscard]] std::size_t done() const { return done_; }
  // Failures and notes may be read only after the run has ended.
  [[nodiscard]] const std::vector<fovea::ImageFailure>& failures() const { return failures_; }
  [[nodiscard]] const std::string& notes() const { return notes_; }

 private:
  void run() noexcept;

  std::atomic<bool> stop_ = false;
  std::unique_ptr<fovea::c::Activity> activity_;
  std::size_t count_;
  Work work_;
  std::atomic<std::size_t> done_ = 0;
  std::string notes_;
  std::vector<fovea::ImageFailure> failures_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};
