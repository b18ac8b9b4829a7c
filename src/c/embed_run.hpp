// fovea_embedding: a run over images or texts in a thread of its own.
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

  /// What a run gives its work: when to stop, and whom to tell.
  struct Control {
    const std::atomic<bool>* stop;
    std::function<void(std::size_t done)> on_progress;
    std::function<void(std::string_view)> on_note;
  };
  /// Computes; returns the failures of single images.
  using Work = std::function<std::vector<fovea::ImageFailure>(const Control& control)>;

  /// Starts `work` over `count` inputs.
  fovea_embedding(std::size_t count, Work work);
  ~fovea_embedding() { end(); }
  fovea_embedding(const fovea_embedding&) = delete;
  fovea_embedding& operator=(const fovea_embedding&) = delete;

  /// True when it has ended; false after `time`. Throws what ended it early.
  [[nodiscard]] bool wait(std::chrono::milliseconds time);
  /// Until nothing uses the memory of the inputs and the rows, and the thread is gone.
  void end();
  void stop() { stop_ = true; }
  [[nodiscard]] std::size_t done() const { return done_; }
  // Failures and notes are those of a run that has ended.
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
