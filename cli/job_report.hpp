// What `fovea embed` and `fovea preprocess` share: progress on stderr, signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "cli/commands.hpp"
#include "cli/job_options.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

enum class ProgressStyle : std::uint8_t { kText, kJson, kNone };

/// Makes the first SIGINT or SIGTERM end a job softly; the second kills the program.
/// Returns the flag for JobControl::stop.
[[nodiscard]] const std::atomic<bool>* catch_signals();

/// Progress, failed inputs and the summary of one job, on stderr.
class JobReporter {
 public:
  JobReporter(const JobArguments& arguments, std::string errors_file);

  [[nodiscard]] JobControl control();

  /// Prints the summary; returns the exit code.
  [[nodiscard]] int finish(const JobReport& report);

 private:
  void show(const JobProgress& progress);
  void show(const JobFailure& failure);
  void line(const std::string& text, bool stays);

  ProgressStyle style_;
  bool is_terminal_;
  bool quiet_;
  std::string errors_file_;
  std::mutex mutex_;
  bool line_is_open_ = false;
  std::uint64_t failures_shown_ = 0;
};

}  // namespace fovea::cli
