// Progress and summaries of jobs on stderr, and the handling of signals; shared by `fovea embed`,
// `fovea preprocess` and others.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "cli/commands.hpp"
#include "cli/job_options.hpp"
#include "cli/progress_line.hpp"
#include "fovea/job.hpp"

namespace fovea::cli {

/// While an object of this class exists, the first SIGINT or SIGTERM requests an orderly end and
/// prints a message; the second kills the program.
class Interruption {
 public:
  Interruption();
  ~Interruption() { end(); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Stops printing messages about signals. When it returns, the message about an earlier signal
  /// has been printed.
  void end();

  /// Returns the flag for JobControl::stop.
  [[nodiscard]] static const std::atomic<bool>* flag();

 private:
  std::atomic<bool> ended_ = false;
  std::thread messenger_;  // prints the message, because a signal handler must not
};

/// Reports progress, failed inputs and the summary of one job on stderr.
class JobReporter {
 public:
  /// Both names are empty for a job that writes no files; then all failures are shown. `noun`: what
  /// a row represents.
  JobReporter(const JobArguments& arguments, std::string output, std::string errors_file,
              std::string noun = "image");

  [[nodiscard]] JobControl control();

  /// Prints the summary; returns the exit code.
  [[nodiscard]] int finish(const JobReport& report);

 private:
  void show(const JobProgress& progress);
  void show(const JobFailure& failure);
  [[nodiscard]] std::string summary(const JobReport& report) const;
  /// Returns ", 3 failed (see OUT/errors.jsonl)", or "" when none failed.
  [[nodiscard]] std::string failed_inputs(const JobReport& report) const;
  [[nodiscard]] bool writes_one_file() const { return output_.ends_with(".npy"); }

  std::string output_;
  std::string errors_file_;
  std::string noun_;
  ProgressLine line_;
  std::uint64_t failures_shown_ = 0;
  Interruption interruption_;
};

}  // namespace fovea::cli
